// The largest logits of a row; compiled for each processor, as elementary.h is.

#pragma once

#include <cstdint>

namespace dragoman {

// The `found` largest logits, in descending order, of equal ones the first that was pushed; `room` is at least 1.
struct Ranking {
  int64_t room, found;
  int64_t* places;
  float* values;
};

namespace {

inline void push(Ranking& best, float value, int64_t place) {
  if (best.found == best.room && !(value > best.values[best.room - 1])) return;
  int64_t at = best.found < best.room ? best.found++ : best.room - 1;
  for (; at > 0 && value > best.values[at - 1]; --at) {
    best.values[at] = best.values[at - 1];
    best.places[at] = best.places[at - 1];
  }
  best.values[at] = value;
  best.places[at] = place;
}

}  // namespace
}  // namespace dragoman
