// See beams.h.

#include "beams.h"

#include <algorithm>
#include <cmath>

namespace dragoman {

void BestExtensions::push(int64_t row, const Ranking& ranking, float largest, float log_sum, float total) {
  for (int64_t i = 0; i < ranking.found; ++i) {
    const float logprob = ranking.values[i] - largest - log_sum, sum = logprob + total;
    if (static_cast<int64_t>(best_.size()) == room_) {
      if (!(sum > best_.back().total)) return;  // nor does what follows in the row
      best_.pop_back();
    }
    auto at = best_.end();
    while (at != best_.begin() && sum > (at - 1)->total) --at;
    best_.insert(at, {row, ranking.places[i], logprob, sum});
  }
}

RowRankings::RowRankings(const std::vector<Beam>& beams, int64_t chunks) : chunks_(chunks) {
  int64_t room = 0;
  for (const Beam& beam : beams) {
    place_.resize(beam.first + beam.rows);
    for (int64_t row = beam.first; row < beam.first + beam.rows; ++row) place_[row] = rows_++;
    room += 2 * beam.size * beam.rows;
  }
  places_ = std::make_unique_for_overwrite<int64_t[]>(chunks * room);
  values_ = std::make_unique_for_overwrite<float[]>(chunks * room);
  rankings_.reserve(chunks * rows_);
  int64_t used = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (const Beam& beam : beams)
      for (int64_t row = 0; row < beam.rows; ++row, used += 2 * beam.size)
        rankings_.push_back({2 * beam.size, 0, places_.get() + used, values_.get() + used});
}

const Ranking& RowRankings::whole(int64_t row) {
  Ranking& all = of(row, 0);
  for (int64_t chunk = 1; chunk < chunks_; ++chunk) {
    const Ranking& other = of(row, chunk);
    for (int64_t i = 0; i < other.found; ++i) push(all, other.values[i], other.places[i]);
  }
  return all;
}

void ExtensionTable::write(int64_t place, const std::vector<Extension>& best) const {
  for (int64_t i = 0; i < width; ++i) {
    const Extension each = i < static_cast<int64_t>(best.size()) ? best[i] : Extension{0, 0, -INFINITY, -INFINITY};
    rows[place * width + i] = each.row;
    tokens[place * width + i] = each.token;
    logprobs[place * width + i] = each.logprob;
    totals[place * width + i] = each.total;
  }
}

bool BeamRows::advance(const Beam& beam, const std::vector<Extension>& best, int64_t eos_id) {
  if (beam.rows != beam.size) return false;
  std::vector<Extension> survivors;
  for (int64_t rank = 0; rank < static_cast<int64_t>(best.size()); ++rank) {
    if (static_cast<int64_t>(survivors.size()) == beam.size) break;
    const Extension& each = best[rank];
    if (!(each.total > -INFINITY)) return false;
    if (each.token != eos_id)
      survivors.push_back(each);
    else if (rank < beam.size)
      return false;
  }
  if (static_cast<int64_t>(survivors.size()) < beam.size) return false;
  const std::vector<int64_t> old(slots.begin() + beam.first, slots.begin() + beam.first + beam.rows);
  std::vector<int64_t> free;
  for (int64_t row = 0; row < beam.rows; ++row)
    if (std::none_of(survivors.begin(), survivors.end(), [&](const Extension& each) { return each.row == row; }))
      free.push_back(old[row]);
  std::sort(free.begin(), free.end());
  std::vector<bool> inherited(beam.rows);
  auto next = free.begin();
  for (int64_t i = 0; i < beam.size; ++i) {
    const Extension& each = survivors[i];
    const int64_t row = beam.first + i, from = old[each.row];
    tokens[row] = each.token;
    totals[row] = each.total;
    slots[row] = inherited[each.row] ? *next++ : from;
    if (inherited[each.row]) copies.push_back({from, slots[row], row});
    inherited[each.row] = true;
  }
  return true;
}

}  // namespace dragoman
