// Steps of beams: the best extensions of all rows of a beam, and the rows of the next step. The rules are those of
// model/beam_search.py while no hypothesis ends.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ranking.h"

namespace dragoman {

// A beam's rows in a step, which stand together; `size` of them, except in its first step.
struct Beam {
  int64_t first, rows, size;
};

// A row of a beam, by its number in the beam, with one more token; `total` is the sum of all its log-probabilities.
struct Extension {
  int64_t row, token;
  float logprob, total;
};

// The best extensions pushed so far, `room` at most, by `total`: in descending order, of equal ones the first.
class BestExtensions {
 public:
  explicit BestExtensions(int64_t room) : room_(room) { best_.reserve(room); }

  // Pushes a row's ranked logits; `largest` and `log_sum` make them log-probabilities, `total` is the row's own.
  void push(int64_t row, const Ranking& ranking, float largest, float log_sum, float total);

  const std::vector<Extension>& best() const { return best_; }

 private:
  int64_t room_;
  std::vector<Extension> best_;
};

// A table of the extensions of some beams, `width` for each, padded by extensions of probability 0.
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

  // A row's ranking by the thread whose chunks begin with this one; it has room for twice the beam's size.
  Ranking& of(int64_t row, int64_t chunk) { return rankings_[chunk * rows_ + place_[row]]; }

  // A row's ranking over all chunks.
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

  // Makes the beam's rows of the next step: the first child of a row inherits its slot, others take, in their order, the
  // lowest of the slots without a child. Returns false, and leaves the rows invalid, where a hypothesis ends or there
  // are not `size` of them.
  bool advance(const Beam& beam, const std::vector<Extension>& best, int64_t eos_id);
};

}  // namespace dragoman
