// What beams go on with: the best extensions of all rows of a beam, and the rows that come of them. The rules are those of
// model/beam_search.py, as far as no hypothesis ends.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ranking.h"

namespace dragoman {

// A beam's rows in a step, which stand together; `size` of them, but in its first step.
struct Beam {
  int64_t first, rows, size;
};

// A row of a beam, by its number there, with one more token; `total` is the sum of all its log-probabilities.
struct Extension {
  int64_t row, token;
  float logprob, total;
};

// The best of what was pushed, `room` at most, by `total`: in descending order, of equal ones the first.
class BestExtensions {
 public:
  explicit BestExtensions(int64_t room) : room_(room) { best_.reserve(room); }

  // All that counts of a row, and what makes log-probabilities of its logits. `total` is the row's own.
  void push(int64_t row, const Ranking& ranking, float largest, float log_sum, float total);

  const std::vector<Extension>& best() const { return best_; }

 private:
  int64_t room_;
  std::vector<Extension> best_;
};

// Where the extensions of some beams are written, `width` for each: filled up with what has probability 0.
struct ExtensionTable {
  int64_t width;
  int64_t *rows, *tokens;
  float *logprobs, *totals;

  void write(int64_t place, const std::vector<Extension>& best) const;
};

// The largest logits of each row of the beams, found chunk by chunk of the vocabulary by several threads.
class RowRankings {
 public:
  RowRankings(const std::vector<Beam>& beams, int64_t chunks);

  // A row's ranking in the hands of the thread whose chunks begin with this one; it has room for twice the beam's size.
  Ranking& of(int64_t row, int64_t chunk) { return rankings_[chunk * rows_ + place_[row]]; }

  // Of all chunks.
  const Ranking& whole(int64_t row);

 private:
  int64_t chunks_, rows_ = 0;
  std::vector<int64_t> place_;  // by row
  std::vector<Ranking> rankings_;  // [chunks, rows]
  std::unique_ptr<int64_t[]> places_;
  std::unique_ptr<float[]> values_;
};

// The rows of one step, and the target K/V to copy before it: all positions of `row`.
struct BeamRows {
  struct Copy {
    int64_t from, to, row;
  };
  std::vector<int64_t> tokens, slots;  // [rows of the step]
  std::vector<float> totals;
  std::vector<Copy> copies;

  // Lets a beam go on: the first child of a row inherits its slot, others take, in their order, the lowest of the slots
  // that have no child. False, and the rows are of no use, where a hypothesis ends or there are not `size` of them.
  bool advance(const Beam& beam, const std::vector<Extension>& best, int64_t eos_id);
};

}  // namespace dragoman
