// The output projection of a decode step: see int8_transformer.h. The logits of a row are examined part by part, while
// they are in the core's cache, and kept only where they are needed.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "checks.h"
#include "elementary.h"
#include "int8_transformer.h"
#include "parts.h"

namespace dragoman {
namespace {

constexpr int64_t kChunkBlocks = 8;  // of logits that are summarised at a time

}  // namespace

std::vector<Int8Transformer::Draw> Int8Transformer::draws_of(const Batch& batch) const {
  std::vector<Draw> draws;
  const DragomanBatch& call = batch.call;
  if (call.sampled == 0) return draws;
  for (size_t i = 0; i < batch.places.size(); ++i) {
    const int64_t number = batch.places[i], row = rows_ - batch.places.size() + i;
    if (call.temperatures[number] > 0)
      draws.push_back({row, {call.temperatures[number], call.top_ps[number], call.top_ks[number],
                             noise_state(static_cast<uint64_t>(call.seeds[number]), batch.positions[row])}});
  }
  return draws;
}

void Int8Transformer::keep_words(const bool* allowed, int64_t count, const int64_t* slots, int64_t of_slots) {
  const int64_t sources = words_.empty() ? 0 : of_slots, vocab = projection_.out;
  require(count == sources * vocab, "int8: words must be ", sources, " x ", vocab, " truth values");
  for (int64_t s = 0; s < sources; ++s) {
    const bool* own = allowed + s * vocab;
    std::vector<int32_t>& words = words_[slots[s]];
    words.clear();
    for (const bool *at = own, *end = own + vocab; (at = static_cast<const bool*>(std::memchr(at, true, end - at))); ++at)
      words.push_back(at - own);
  }
}

void Int8Transformer::score_all(const Batch& batch, StepLogits& logits) {
  const int64_t vocab = projection_.out, stride = kChunkBlocks * kBlock;
  const std::vector<int64_t>& logit_rows = batch.logit_rows;
  in_parts(logits.parts, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> some(rows_ * stride), tops(rows_, -INFINITY);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kChunkBlocks, last = std::min(first + kChunkBlocks, projection_.blocks);
      const int64_t start = first * kBlock, width = std::min(last * kBlock, vocab) - start;
      kernels().linear(projection_, q_.data(), scales_.data(), rows_, first, last, Epilogue::store, some.data(), stride);
      for (int64_t row = 0; row < rows_; ++row) {
        Summary part = kernels().summarise(some.data() + row * stride, width, tops[row]);
        part.place += start;
        logits.summaries[chunk * rows_ + row] = part;
        tops[row] = larger(part.largest, tops[row]);
      }
      for (size_t i = 0; i < logit_rows.size(); ++i)
        std::copy_n(some.data() + logit_rows[i] * stride, width, logits.kept + i * vocab + start);
      for (size_t i = 0; i < logits.draws.size(); ++i)
        std::copy_n(some.data() + logits.draws[i].row * stride, width, logits.drawn.get() + i * vocab + start);
      for (const Beam& beam : batch.beams)
        for (int64_t row = beam.first; row < beam.first + beam.rows; ++row)
          kernels().rank(some.data() + row * stride, width, start, logits.rankings.of(row, begin));
    }
  });
}

void Int8Transformer::score_words(const Batch& batch, StepLogits& logits) {
  const int64_t vocab = projection_.out, stride = kernels().row_bytes(projection_.groups);
  const std::vector<int64_t>& logit_rows = batch.logit_rows;
  const int64_t* source = batch.source_slots.data();
  std::fill_n(logits.kept, logit_rows.size() * vocab, -INFINITY);
  std::fill_n(logits.drawn.get(), logits.draws.size() * vocab, -INFINITY);
  in_parts(rows_, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> some;
    for (int64_t row = begin; row < end; ++row) {
      const std::vector<int32_t>& words = words_[source[row]];
      const int64_t count = words.size();
      require(count > 0, "int8: slot ", source[row], " has no words");
      some.resize(count);
      kernels().select(projection_, q_.data() + row * stride, scales_[row], words.data(), count, some.data());
      Summary& all = logits.summaries[row];
      all = kernels().summarise(some.data(), count, -INFINITY);
      all.place = words[all.place];
      const auto copy = [&](float* to) {
        for (int64_t i = 0; i < count; ++i) to[words[i]] = some[i];
      };
      for (size_t i = 0; i < logit_rows.size(); ++i)
        if (logit_rows[i] == row) copy(logits.kept + i * vocab);
      for (size_t i = 0; i < logits.draws.size(); ++i)
        if (logits.draws[i].row == row) copy(logits.drawn.get() + i * vocab);
      for (const Beam& beam : batch.beams) {
        if (row < beam.first || row >= beam.first + beam.rows) continue;
        Ranking& ranking = logits.rankings.of(row, 0);
        kernels().rank(some.data(), count, 0, ranking);
        for (int64_t i = 0; i < ranking.found; ++i) ranking.places[i] = words[ranking.places[i]];
      }
    }
  });
}

void Int8Transformer::project(const Batch& batch, Scores& scores) {
  const int64_t vocab = projection_.out;
  const int64_t parts = words_.empty() ? (projection_.blocks + kChunkBlocks - 1) / kChunkBlocks : 1;
  scores.best.resize(rows_);
  scores.logprobs.resize(rows_);
  StepLogits logits{parts, draws_of(batch), std::vector<Summary>(parts * rows_), {}, scores.wanted.logits,
                    {batch.beams, parts}};
  logits.drawn = std::make_unique_for_overwrite<float[]>(logits.draws.size() * vocab);
  quantise(states_.data(), d_model_);
  (this->*score_)(batch, logits);
  std::vector<float> largests(rows_);
  for (int64_t row = 0; row < rows_; ++row) {
    int64_t place = logits.summaries[row].place;
    float largest = logits.summaries[row].largest;
    for (int64_t part = 1; part < parts; ++part) {
      const Summary& next = logits.summaries[part * rows_ + row];
      if (!(next.largest > largest)) continue;  // of equal ones the first
      largest = next.largest;
      place = next.place;
    }
    double total = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const Summary& own = logits.summaries[part * rows_ + row];
      total += own.total * exp_of_negative(own.largest - largest);
    }
    largests[row] = largest;
    scores.best[row] = place;
    scores.logprobs[row] = static_cast<float>(-logarithm(total));
  }
  in_parts(logits.draws.size(), 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Choice choice = choose(logits.drawn.get() + i * vocab, vocab, logits.draws[i].options);
      scores.best[logits.draws[i].row] = choice.token;
      scores.logprobs[logits.draws[i].row] = choice.logprob;
    }
  });
  scores.extensions.clear();
  for (const Beam& beam : batch.beams) {
    BestExtensions& extensions = scores.extensions.emplace_back(2 * beam.size);
    for (int64_t row = beam.first; row < beam.first + beam.rows; ++row)
      extensions.push(row - beam.first, logits.rankings.whole(row), largests[row], -scores.logprobs[row],
                      batch.totals[row]);
  }
}

}  // namespace dragoman
