// See sampling.h. Top-k and top-p are applied without sorting the vocabulary: tokens are counted and weighed by
// their scores' leading bits, and only those that share them with the last one that stays are put in order.

#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "compute.h"

namespace dragoman {
namespace {

struct Candidate {
  float score;
  int64_t token, weight;
};

bool precedes(const Candidate& a, const Candidate& b) {
  return a.score > b.score || (a.score == b.score && a.token < b.token);
}

// The number of tokens that precede another, and their weight.
struct Before {
  int64_t count, weight;
};

// A token stays if fewer than `most` precede it and their weight is below `limit`; the first one always stays.
struct Limits {
  int64_t most;
  double limit;

  bool leave(const Before& before) const {
    return before.count == 0 || (before.count < most && static_cast<double>(before.weight) < limit);
  }
};

// A score's exponent and three more bits; scores next to 0, of less than 2^-10, share the first.
constexpr int64_t kFirst = (127 - 10) << 3, kBuckets = (1 << 11) - kFirst;

// Buckets of better scores come first: scores are negative, and their sizes are ordered as their bits are.
int64_t bucket_of(float score) {
  uint32_t bits;
  std::memcpy(&bits, &score, sizeof bits);
  return std::max<int64_t>((bits & 0x7FFFFFFF) >> 20, kFirst) - kFirst;
}

// A bound below all scores in the buckets before `end`.
float floor_of(int64_t end) {
  const uint32_t bits = static_cast<uint32_t>(kFirst + end) << 20;
  float size;
  std::memcpy(&size, &bits, sizeof size);
  return end < kBuckets ? -size : -INFINITY;
}

// One row, filled by `Kernels::weigh`.
struct Row {
  int64_t width;
  std::unique_ptr<float[]> scores = std::make_unique_for_overwrite<float[]>(width);
  std::unique_ptr<float[]> weights = std::make_unique_for_overwrite<float[]>(width);
  std::unique_ptr<float[]> best = std::make_unique_for_overwrite<float[]>((width + kNeighbours - 1) / kNeighbours);

  // Calls `visit`, in order, with each token that is near one with a score in a bucket before `end`. A branch for each
  // single token would cost more than the surplus tokens.
  template <typename Visit>
  void near(int64_t end, Visit visit) const {
    const float floor = floor_of(end);
    for (int64_t first = 0; first < width; first += kNeighbours) {
      if (!(best[first / kNeighbours] > floor)) continue;
      for (int64_t i = first; i < std::min(first + kNeighbours, width); ++i) visit(i);
    }
  }
};

// Returns the bucket of the first token that does not stay, and sets the tokens before that bucket; `end` if all stay.
int64_t last_bucket(const Row& row, int64_t end, const Limits& limits, Before& before) {
  std::vector<Before> buckets(kBuckets);
  row.near(end, [&](int64_t token) {
    Before& own = buckets[bucket_of(row.scores[token])];
    ++own.count;
    own.weight += fixed_point(row.weights[token]);
  });
  before = {0, 0};
  for (int64_t bucket = 0; bucket < end; ++bucket) {
    const Before behind{before.count + buckets[bucket].count, before.weight + buckets[bucket].weight};
    if (behind.count > 0 && !limits.leave(behind)) return bucket;
    before = behind;
  }
  return end;
}

// Moves the candidates that stay to the front; returns their number.
int64_t kept(std::vector<Candidate>& candidates, const Limits& limits, Before before) {
  int64_t low = 0, high = candidates.size();  // those below `low` stay, and are part of `before`
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    Candidate* all = candidates.data();
    std::nth_element(all + low, all + middle, all + high, precedes);
    Before own = before;
    for (int64_t i = low; i < middle; ++i) own = {own.count + 1, own.weight + all[i].weight};
    if (limits.leave(own)) {
      before = {own.count + 1, own.weight + all[middle].weight};
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

int64_t sample(const float* logits, int64_t width, int64_t best, const Sampling& options) {
  if (options.top_k == 0 && options.top_p >= 1) return kernels().draw(logits, width, best, options);
  const Row row{width};
  const int64_t total = kernels().weigh(logits, width, logits[best], options.temperature, row.scores.get(),
                                        row.weights.get(), row.best.get());
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const Limits limits{options.top_k > 0 ? options.top_k : width,
                      options.top_p < 1 ? static_cast<double>(options.top_p) * static_cast<double>(total) : kNone};
  Before before;
  int64_t end = 0, last = 0;
  for (const int64_t reach : {bucket_of(4), bucket_of(9), kBuckets}) {  // most often the first is enough
    last = last_bucket(row, end = reach, limits, before);
    if (last < end) break;
  }
  const auto staying = std::make_unique_for_overwrite<int64_t[]>(width);
  const auto doubtful = std::make_unique_for_overwrite<int64_t[]>(width);
  int64_t *stays = staying.get(), *doubt = doubtful.get();
  row.near(end, [&](int64_t token) {
    const int64_t bucket = bucket_of(row.scores[token]);
    *stays = *doubt = token;
    stays += bucket < last;
    doubt += bucket == last;
  });
  std::vector<Candidate> candidates;
  for (const int64_t* token = doubtful.get(); token < doubt; ++token)
    candidates.push_back({row.scores[*token], *token, fixed_point(row.weights[*token])});
  const int64_t count = kept(candidates, limits, before);
  for (int64_t i = 0; i < count; ++i) *stays++ = candidates[i].token;
  Draw draw(best, 0, noise_bits(options.noise, best));
  for (const int64_t* token = staying.get(); token < stays; ++token) {
    const uint64_t bits = noise_bits(options.noise, *token);
    if (!draw.is_hopeless(Draw::distance(bits), row.weights[*token])) draw.push(*token, row.scores[*token], bits);
  }
  return draw.token;
}

Choice choose(const float* logits, int64_t width, const Sampling& options) {
  const Summary all = kernels().summarise(logits, width, -INFINITY);
  const int64_t token = options.temperature > 0 ? sample(logits, width, all.place, options) : all.place;
  return {token, logits[token] - all.largest - static_cast<float>(logarithm(all.total))};
}

}  // namespace dragoman
