// Work in parts, which a process's threads take as they come. A thread that another program keeps from running takes
// fewer parts; OpenMP gives each thread an equal share and waits for all of them, and so would be as slow as that one.
#pragma once

#include <cstdint>

namespace dragoman {

using Body = void (*)(const void* context, int64_t begin, int64_t end);

// The number of threads that this process has by itself, from now on.
void set_threads(int64_t threads);

// From now on this process, engine `own` of some, uses its share of the `threads` that all of them have together and
// those without work do not need. `idle_since` [engines], which the caller keeps, says since when each has none, in
// nanoseconds of CLOCK_MONOTONIC, or 0; each engine writes its own at any time.
void lend_threads(const int64_t* idle_since, int64_t engines, int64_t own, int64_t threads);

// How many threads may take parts now: the process's own, and those that are lent.
int64_t usable_threads();

// Calls `body` for parts of 0..count, in any order, in up to `usable_threads` threads; returns when all are
// done. There are at most count / least parts, so that each is worth the notice of a thread. The first exception is
// thrown, after all parts. A body must not call this function.
void run_parts(int64_t count, int64_t least, Body body, const void* context);

template <class Function>
void in_parts(int64_t count, int64_t least, const Function& function) {
  const Body body = [](const void* context, int64_t begin, int64_t end) {
    (*static_cast<const Function*>(context))(begin, end);
  };
  run_parts(count, least, body, &function);
}

}  // namespace dragoman
