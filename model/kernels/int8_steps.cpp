// A block of decode steps: see int8_transformer.h.

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <tuple>

#include "kv_buffer.h"
#include "int8_transformer.h"

namespace dragoman {

Int8Transformer::Result Int8Transformer::decode(const Batch& batch) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); };
  const auto begin = Clock::now();
  const std::vector<Beam> beams = beams_of(batch);
  Batch next = batch;
  next.places = places_of(batch, beams);
  const int64_t rows = batch.tokens.numel(), plain = next.places.size(), first = rows - plain;
  at::Tensor best = at::zeros({batch.steps, rows}, at::kLong), logprobs = at::zeros({batch.steps, rows}, at::kFloat);
  at::Tensor counts = at::zeros({plain}, at::kLong);
  int64_t *tokens = best.mutable_data_ptr<int64_t>(), *count = counts.mutable_data_ptr<int64_t>();
  float* chances = logprobs.mutable_data_ptr<float>();
  std::vector<std::vector<BestExtensions>> extensions;
  Scores scores;
  int64_t steps = 0;
  for (bool goes_on = true; goes_on; ++steps) {
    const auto step_begin = Clock::now();
    scores = step(next, beams);
    const int64_t* chosen = scores.best.const_data_ptr<int64_t>();
    const float* chance = scores.logprobs.const_data_ptr<float>();
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t place = steps * rows + (row < first ? row : first + next.places[row - first]);
      tokens[place] = chosen[row];
      chances[place] = chance[row];
    }
    for (const int64_t number : next.places) ++count[number];
    extensions.push_back(std::move(scores.extensions));
    // A step that would end too late is not begun.
    goes_on = steps + 1 < batch.steps && since(begin) + since(step_begin) <= batch.seconds &&
              advance(next, beams, extensions.back(), scores.best, count);
  }
  int64_t widest = 0;
  for (const Beam& beam : beams) widest = std::max(widest, 2 * beam.size);
  const int64_t each = beams.size(), size = steps * each * widest;
  at::Tensor ids = at::empty({2, steps, each, widest}, at::kLong), sums = at::empty({2, steps, each, widest}, at::kFloat);
  const ExtensionTable table{widest, ids.mutable_data_ptr<int64_t>(), ids.mutable_data_ptr<int64_t>() + size,
                             sums.mutable_data_ptr<float>(), sums.mutable_data_ptr<float>() + size};
  int64_t place = 0;
  for (const auto& of_step : extensions)
    for (const BestExtensions& own : of_step) table.write(place++, own.best());
  return {best.narrow(0, 0, steps), logprobs.narrow(0, 0, steps), counts, scores.logits, scores.alignment,
          scores.self_attention, ids, sums};
}

std::vector<int64_t> Int8Transformer::places_of(const Batch& batch, const std::vector<Beam>& beams) const {
  const Plain& plain = batch.plain;
  const int64_t rows = batch.tokens.numel(), count = plain.rooms.numel(), sampled = plain.temperatures.numel();
  TORCH_CHECK(0 < batch.steps, "int8: a block has ", batch.steps, " steps");
  TORCH_CHECK(count <= rows && (sampled == 0 || sampled == count), "int8: ", count, " of ", rows, " rows are plain");
  for (const auto& [tensor, type, size] : {std::tuple{&plain.rooms, at::kLong, count},
                                           std::tuple{&plain.temperatures, at::kFloat, sampled},
                                           std::tuple{&plain.top_ks, at::kLong, sampled},
                                           std::tuple{&plain.top_ps, at::kFloat, sampled},
                                           std::tuple{&plain.seeds, at::kLong, sampled}})
    TORCH_CHECK(tensor->dtype() == type && tensor->is_contiguous() && tensor->numel() == size,
                "int8: plain rows must be described by ", size, " contiguous numbers each");
  const int64_t* room = plain.rooms.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) TORCH_CHECK(0 < room[i], "int8: plain row ", i, " has no room");
  int64_t of_beams = 0;
  for (const Beam& beam : beams) of_beams += beam.rows;
  TORCH_CHECK(batch.steps == 1 || of_beams == rows - count, "int8: only beams and plain rows take several steps");
  std::vector<int64_t> places(count);
  std::iota(places.begin(), places.end(), 0);
  return places;
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

bool Int8Transformer::advance(Batch& batch, const std::vector<Beam>& beams, const std::vector<BestExtensions>& extensions,
                              const at::Tensor& best, const int64_t* counts) {
  const auto copied = [&](const at::Tensor& tensor) {
    const int64_t* numbers = tensor.const_data_ptr<int64_t>();
    return std::vector<int64_t>(numbers, numbers + rows_);
  };
  const auto tensor = [](const auto& numbers, at::ScalarType type) {
    at::Tensor made = at::empty({static_cast<int64_t>(numbers.size())}, type);
    std::copy(numbers.begin(), numbers.end(), static_cast<std::decay_t<decltype(numbers[0])>*>(made.mutable_data_ptr()));
    return made;
  };
  std::vector<int64_t> tokens = copied(best), positions = copied(batch.positions), slots = copied(batch.slots);
  std::vector<int64_t> source_slots = copied(batch.source_slots), source_lengths = copied(batch.source_lengths);
  for (int64_t& position : positions) ++position;
  if (!beams.empty()) {
    BeamRows rows{std::move(tokens), std::move(slots), std::vector<float>(rows_), {}};
    for (size_t i = 0; i < beams.size(); ++i)
      if (!rows.advance(beams[i], extensions[i].best(), batch.eos_id)) return false;
    for (const BeamRows::Copy& each : rows.copies)
      for (const at::Tensor& buffer : target_)
        copy_slot(buffer, each.from, each.to, std::min(positions[each.row], buffer.size(3)));
    tokens = std::move(rows.tokens);
    slots = std::move(rows.slots);
    batch.totals = tensor(rows.totals, at::kFloat);
  }
  const int64_t* room = batch.plain.rooms.const_data_ptr<int64_t>();
  const int64_t plain = batch.places.size(), first = rows_ - plain;
  int64_t kept = 0;
  for (int64_t i = 0; i < plain; ++i) {
    const int64_t number = batch.places[i];
    if (tokens[first + i] == batch.eos_id || counts[number] == room[number]) continue;
    batch.places[kept] = number;
    for (auto* column : {&tokens, &positions, &slots, &source_slots, &source_lengths})
      (*column)[first + kept] = (*column)[first + i];
    ++kept;
  }
  if (first + kept == 0) return false;
  batch.places.resize(kept);
  for (auto* column : {&tokens, &positions, &slots, &source_slots, &source_lengths}) column->resize(first + kept);
  batch.tokens = tensor(tokens, at::kLong);
  batch.positions = tensor(positions, at::kLong);
  batch.slots = tensor(slots, at::kLong);
  batch.source_slots = tensor(source_slots, at::kLong);
  batch.source_lengths = tensor(source_lengths, at::kLong);
  return true;
}

}  // namespace dragoman
