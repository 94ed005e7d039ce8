// A block of decode steps: see int8_transformer.h.

#include <algorithm>
#include <chrono>
#include <numeric>

#include "checks.h"
#include "int8_transformer.h"
#include "kv_buffer.h"

namespace dragoman {

int64_t Int8Transformer::decode(const DragomanBatch& call, const DragomanScores& wanted) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); };
  const auto begin = Clock::now();
  const auto copied = [](const int64_t* numbers, int64_t count) { return Numbers(numbers, numbers + count); };
  const int64_t rows = call.rows, first = rows - call.plain;
  Batch batch{call,
              copied(call.tokens, rows),
              copied(call.positions, rows),
              copied(call.slots, rows),
              copied(call.source_slots, rows),
              copied(call.source_lengths, rows),
              {call.totals, call.totals + (call.beams ? rows : 0)},
              copied(call.logit_rows, call.logits),
              copied(call.alignment_rows, call.alignment),
              copied(call.self_attention_rows, call.self_attention),
              beams_of(call),
              {}};
  batch.places = places_of(batch);
  const ExtensionTable table{wanted.extensions, wanted.parents, wanted.tokens, wanted.extension_logprobs, wanted.sums};
  Scores scores{{}, {}, {}, wanted};
  int64_t steps = 0, written = 0;
  for (bool goes_on = true; goes_on; ++steps) {
    const auto step_begin = Clock::now();
    step(batch, scores);
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t place = steps * rows + (row < first ? row : first + batch.places[row - first]);
      wanted.best[place] = scores.best[row];
      wanted.logprobs[place] = scores.logprobs[row];
    }
    for (const int64_t number : batch.places) ++wanted.counts[number];
    for (const BestExtensions& own : scores.extensions) table.write(written++, own.best());
    // A step that would end too late is not begun.
    goes_on = steps + 1 < call.steps && since(begin) + since(step_begin) <= call.seconds &&
              advance(batch, scores, wanted.counts);
  }
  return steps;
}

Int8Transformer::Numbers Int8Transformer::places_of(const Batch& batch) const {
  const DragomanBatch& call = batch.call;
  require(0 < call.steps, "int8: a block has ", call.steps, " steps");
  require(call.plain <= call.rows && (call.sampled == 0 || call.sampled == call.plain), "int8: ", call.plain, " of ",
          call.rows, " rows are plain");
  for (int64_t i = 0; i < call.plain; ++i) require(0 < call.rooms[i], "int8: plain row ", i, " has no room");
  int64_t of_beams = 0;
  for (const Beam& beam : batch.beams) of_beams += beam.rows;
  require(call.steps == 1 || of_beams == call.rows - call.plain, "int8: only beams and plain rows take several steps");
  Numbers places(call.plain);
  std::iota(places.begin(), places.end(), 0);
  return places;
}

std::vector<Beam> Int8Transformer::beams_of(const DragomanBatch& call) const {
  std::vector<Beam> beams;
  const int64_t* numbers = call.beam_rows;
  int64_t behind = 0;
  for (int64_t i = 0; i < call.beams; ++i, numbers += 3) {
    const Beam beam{numbers[0], numbers[1], numbers[2]};
    require(behind <= beam.first && 0 < beam.rows && beam.rows <= call.rows - beam.first && 0 < beam.size &&
                beam.size <= projection_.out,
            "int8: beam ", i, " has ", beam.rows, " rows from ", beam.first);
    behind = beam.first + beam.rows;
    beams.push_back(beam);
  }
  return beams;
}

bool Int8Transformer::advance(Batch& batch, Scores& scores, const int64_t* counts) {
  batch.tokens = scores.best;
  for (int64_t& position : batch.positions) ++position;
  if (!batch.beams.empty()) {
    BeamRows rows{std::move(batch.tokens), std::move(batch.slots), std::vector<float>(rows_), {}};
    for (size_t i = 0; i < batch.beams.size(); ++i)
      if (!rows.advance(batch.beams[i], scores.extensions[i].best(), batch.call.eos_id)) return false;
    for (const BeamRows::Copy& each : rows.copies)
      for (const Buffer& buffer : target_)
        buffer.copy_slot(each.from, each.to, std::min(batch.positions[each.row], buffer.positions));
    batch.tokens = std::move(rows.tokens);
    batch.slots = std::move(rows.slots);
    batch.totals = std::move(rows.totals);
  }
  const int64_t plain = batch.places.size(), first = rows_ - plain;
  const auto columns = {&batch.tokens, &batch.positions, &batch.slots, &batch.source_slots, &batch.source_lengths};
  int64_t kept = 0;
  for (int64_t i = 0; i < plain; ++i) {
    const int64_t number = batch.places[i];
    if (batch.tokens[first + i] == batch.call.eos_id || counts[number] == batch.call.rooms[number]) continue;
    batch.places[kept] = number;
    for (Numbers* column : columns) (*column)[first + kept] = (*column)[first + i];
    ++kept;
  }
  if (first + kept == 0) return false;
  batch.places.resize(kept);
  for (Numbers* column : columns) column->resize(first + kept);
  return true;
}

}  // namespace dragoman
