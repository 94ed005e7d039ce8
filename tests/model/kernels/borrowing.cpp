// A program that ends with 1 if an engine that borrows threads goes on borrowing where they lose their cores, or stops
// where they do not.

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "parts.h"

using namespace dragoman;
using namespace std::chrono_literals;

namespace {

const std::thread::id kCaller = std::this_thread::get_id();

// Each part of a job takes so long, by sleeping: no program is in the way of that.
void run(std::chrono::microseconds own, std::chrono::microseconds borrowed) {
  in_parts(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      std::this_thread::sleep_for(std::this_thread::get_id() == kCaller ? own : borrowed);
  });
}

bool borrows() { return usable_threads() == 2; }

bool check(bool right, const char* what) {
  if (!right) std::fprintf(stderr, "%s\n", what);
  return right;
}

}  // namespace

int main() {
  const std::vector<int64_t> idle_since{0, 1};
  lend_threads(idle_since.data(), 2, 0, 2);
  bool good = check(borrows(), "the other engine has been idle for long");
  for (int i = 0; i < 20; ++i) run(3ms, 3ms);
  good &= check(borrows(), "equal parts of equal threads are no reason to stop");
  run(10ms, 300ms);
  good &= check(!borrows(), "the borrowed thread was late");
  std::this_thread::sleep_for(30ms);
  good &= check(borrows(), "it is tried again");
  return good ? 0 : 1;
}
