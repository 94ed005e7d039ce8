// The output projection of a decode step, and the further steps of the same call: see int8_transformer.h.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <chrono>

#include "kv_buffer.h"
#include "elementary.h"
#include "int8_transformer.h"

namespace dragoman {
namespace {

constexpr int64_t kChunkBlocks = 8;  // of logits that are summarised at a time, while they are in the core's cache

}  // namespace

Int8Transformer::Result Int8Transformer::decode(const Batch& batch) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(batch.seconds);
  const std::vector<Beam> beams = beams_of(batch);
  std::vector<Scores> steps{step(batch, beams)};
  Batch next = batch;
  while (static_cast<int64_t>(steps.size()) <= batch.ahead && Clock::now() < end && advance(next, beams, steps.back()))
    steps.push_back(step(next, beams));

  std::vector<at::Tensor> best, logprobs;
  int64_t widest = 0;
  for (const Beam& beam : beams) widest = std::max(widest, 2 * beam.size);
  const int64_t count = steps.size(), each = beams.size(), size = count * each * widest;
  at::Tensor ids = at::empty({2, count, each, widest}, at::kLong), sums = at::empty({2, count, each, widest}, at::kFloat);
  const ExtensionTable table{widest, ids.mutable_data_ptr<int64_t>(), ids.mutable_data_ptr<int64_t>() + size,
                             sums.mutable_data_ptr<float>(), sums.mutable_data_ptr<float>() + size};
  int64_t place = 0;
  for (const Scores& scores : steps) {
    best.push_back(scores.best);
    logprobs.push_back(scores.logprobs);
    for (const BestExtensions& extensions : scores.extensions) table.write(place++, extensions.best());
  }
  const Scores& last = steps.back();
  return {at::stack(best), at::stack(logprobs), last.logits, last.alignment, last.self_attention, ids, sums};
}

std::vector<Beam> Int8Transformer::beams_of(const Batch& batch) const {
  const int64_t rows = batch.tokens.numel();
  std::vector<Beam> beams;
  if (batch.beams.numel() == 0) return beams;
  TORCH_CHECK(batch.beams.dtype() == at::kLong && batch.beams.is_contiguous() && batch.beams.dim() == 2 &&
                  batch.beams.size(1) == 3, "int8: beams must be [beams, 3] contiguous int64 numbers");
  TORCH_CHECK(batch.totals.dtype() == at::kFloat && batch.totals.is_contiguous() && batch.totals.numel() == rows,
              "int8: totals must be ", rows, " contiguous float32 numbers");
  const int64_t* numbers = batch.beams.const_data_ptr<int64_t>();
  int64_t behind = 0;
  for (int64_t i = 0; i < batch.beams.size(0); ++i, numbers += 3) {
    const Beam beam{numbers[0], numbers[1], numbers[2]};
    TORCH_CHECK(behind <= beam.first && 0 < beam.rows && beam.rows <= rows - beam.first && 0 < beam.size &&
                    beam.size <= projection_.out, "int8: beam ", i, " has ", beam.rows, " rows from ", beam.first);
    behind = beam.first + beam.rows;
    beams.push_back(beam);
  }
  return beams;
}

bool Int8Transformer::advance(Batch& batch, const std::vector<Beam>& beams, const Scores& scores) {
  const auto copied = [&](const at::Tensor& tensor) {
    const int64_t* numbers = tensor.const_data_ptr<int64_t>();
    return std::vector<int64_t>(numbers, numbers + rows_);
  };
  batch.positions = batch.positions.add(1);
  batch.tokens = scores.best;
  const int64_t* best = scores.best.const_data_ptr<int64_t>();
  if (beams.empty()) return std::find(best, best + rows_, batch.eos_id) == best + rows_;
  BeamRows rows{copied(scores.best), copied(batch.slots), std::vector<float>(rows_), {}};
  int64_t row = 0;
  for (size_t i = 0; i < beams.size(); ++i) {
    for (; row < beams[i].first; ++row)
      if (best[row] == batch.eos_id) return false;
    if (!rows.advance(beams[i], scores.extensions[i].best(), batch.eos_id)) return false;
    row += beams[i].rows;
  }
  for (; row < rows_; ++row)
    if (best[row] == batch.eos_id) return false;
  const int64_t* position = batch.positions.const_data_ptr<int64_t>();
  for (const BeamRows::Copy& each : rows.copies)
    for (const at::Tensor& buffer : target_)
      copy_slot(buffer, each.from, each.to, std::min(position[each.row], buffer.size(3)));
  const auto tensor = [](const auto& numbers, at::ScalarType type) {
    at::Tensor made = at::empty({static_cast<int64_t>(numbers.size())}, type);
    std::copy(numbers.begin(), numbers.end(), static_cast<std::decay_t<decltype(numbers[0])>*>(made.mutable_data_ptr()));
    return made;
  };
  batch.tokens = tensor(rows.tokens, at::kLong);
  batch.slots = tensor(rows.slots, at::kLong);
  batch.totals = tensor(rows.totals, at::kFloat);
  return true;
}

void Int8Transformer::project(const Batch& batch, const std::vector<Beam>& beams, Scores& scores) {
  const int64_t vocab = projection_.out, chunks = (projection_.blocks + kChunkBlocks - 1) / kChunkBlocks;
  const std::vector<int64_t>& logit_rows = batch.outputs.logits;
  scores.best = at::empty({rows_}, at::kLong);
  scores.logprobs = at::empty({rows_}, at::kFloat);
  scores.logits = at::empty({static_cast<int64_t>(logit_rows.size()), vocab}, at::kFloat);
  int64_t* best = scores.best.mutable_data_ptr<int64_t>();
  float *logprobs = scores.logprobs.mutable_data_ptr<float>(), *kept = scores.logits.mutable_data_ptr<float>();
  std::vector<Summary> summaries(chunks * rows_);
  RowRankings rankings(beams, chunks);
  quantise(states_.data(), d_model_);
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> some(rows_ * kChunkBlocks * kBlock), tops(rows_, -INFINITY);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kChunkBlocks, last = std::min(first + kChunkBlocks, projection_.blocks);
      const int64_t start = first * kBlock, width = std::min(last * kBlock, vocab) - start, stride = kChunkBlocks * kBlock;
      kernels().linear(projection_, q_.data(), scales_.data(), rows_, first, last, Epilogue::store, some.data(), stride);
      for (int64_t row = 0; row < rows_; ++row) {
        const Summary part = kernels().summarise(some.data() + row * stride, width, tops[row]);
        summaries[chunk * rows_ + row] = part;
        tops[row] = larger(part.largest, tops[row]);
      }
      for (size_t i = 0; i < logit_rows.size(); ++i)
        std::copy_n(some.data() + logit_rows[i] * stride, width, kept + i * vocab + start);
      for (const Beam& beam : beams)
        for (int64_t row = beam.first; row < beam.first + beam.rows; ++row)
          kernels().rank(some.data() + row * stride, width, start, rankings.of(row, begin));
    }
  });
  std::vector<float> largests(rows_);
  for (int64_t row = 0; row < rows_; ++row) {
    int64_t place = summaries[row].place;
    float largest = summaries[row].largest;
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      const Summary& next = summaries[chunk * rows_ + row];
      if (!(next.largest > largest)) continue;  // of equal ones the first
      largest = next.largest;
      place = chunk * kChunkBlocks * kBlock + next.place;
    }
    double total = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const Summary& part = summaries[chunk * rows_ + row];
      total += part.total * exp_of_negative(part.largest - largest);
    }
    largests[row] = largest;
    best[row] = place;
    logprobs[row] = static_cast<float>(-logarithm(total));
  }
  const float* totals = beams.empty() ? nullptr : batch.totals.const_data_ptr<float>();
  for (const Beam& beam : beams) {
    BestExtensions& extensions = scores.extensions.emplace_back(2 * beam.size);
    for (int64_t row = beam.first; row < beam.first + beam.rows; ++row)
      extensions.push(row - beam.first, rankings.whole(row), largests[row], -logprobs[row], totals[row]);
  }
}

}  // namespace dragoman
