// See parts.h.

#include "parts.h"

#include <ATen/Parallel.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace dragoman {
namespace {

// The steps of a decoder follow one another within microseconds: to sleep between them would cost more than to spin.
constexpr int kSpins = 4096;
constexpr int kSpinsBeforeYield = 256;
// More of them balance better, fewer read shared rows less often.
constexpr int64_t kPartsOfAThread = 4;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Helpers {
 public:
  // Helpers of this process, which are not those of the process that it was forked from.
  static Helpers& instance() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { current_ = nullptr; });
    static_cast<void>(registered);
    Helpers* helpers = current_;
    if (helpers) return *helpers;
    // Never deleted: its threads end with the process.
    auto* made = new Helpers;
    if (current_.compare_exchange_strong(helpers, made)) return *made;
    delete made;
    return *helpers;
  }

  // Only one job at a time; returns false if there is one already.
  bool run(int64_t count, int64_t part, int64_t threads, Body body, const void* context) {
    const std::unique_lock<std::mutex> alone(busy_, std::try_to_lock);
    if (!alone) return false;
    start_helpers(threads - 1);
    const uint64_t parts = (count + part - 1) / part;
    body_ = body;
    context_ = context;
    count_ = count;
    part_ = part;
    failure_ = nullptr;
    unfinished_.store(parts, std::memory_order_relaxed);
    left_.store(static_cast<uint64_t>(number_ + 1) << 32 | parts);
    // Last, since who sees the new number takes parts of it.
    number_.fetch_add(1);
    number_.notify_all();
    take_parts(number_);
    int spins = 0;
    while (unfinished_.load(std::memory_order_acquire)) {
      if (spins == kSpinsBeforeYield) {
        std::this_thread::yield();
      } else {
        ++spins;
        pause();
      }
    }
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

 private:
  void start_helpers(int64_t wanted) {
    try {
      for (; started_ < wanted; ++started_) std::thread([this] { help(); }).detach();
    } catch (const std::system_error&) {
      // The system allows no more threads now: those that are there take all parts.
    }
  }

  void help() {
    for (uint32_t seen = 0;;) {
      for (int spins = 0; number_.load() == seen && spins < kSpins; ++spins) pause();
      number_.wait(seen);
      seen = number_.load();
      take_parts(seen);
    }
  }

  void take_parts(uint32_t number) {
    for (uint64_t left = left_.load(); left >> 32 == number && static_cast<uint32_t>(left);) {
      if (!left_.compare_exchange_weak(left, left - 1)) continue;
      // The job stays as it is until this part is done.
      const int64_t begin = (static_cast<uint32_t>(left) - 1) * part_;
      try {
        body_(context_, begin, std::min(begin + part_, count_));
      } catch (...) {
        const std::lock_guard<std::mutex> lock(failing_);
        if (!failure_) failure_ = std::current_exception();
      }
      unfinished_.fetch_sub(1, std::memory_order_release);
      left = left_.load();
    }
  }

  static inline std::atomic<Helpers*> current_ = nullptr;

  std::mutex busy_, failing_;
  int64_t started_ = 0;
  Body body_ = nullptr;
  const void* context_ = nullptr;
  int64_t count_ = 0, part_ = 1;
  std::exception_ptr failure_;
  alignas(64) std::atomic<uint32_t> number_{0};
  // The job's number in the upper half, and in the lower one how many of its parts nobody has taken.
  alignas(64) std::atomic<uint64_t> left_{0};
  alignas(64) std::atomic<uint64_t> unfinished_{0};
};

}  // namespace

void run_parts(int64_t count, int64_t least, Body body, const void* context) {
  if (count <= 0) return;
  const int64_t threads = at::get_num_threads();
  const int64_t parts = threads == 1 ? 1 : std::min(kPartsOfAThread * threads, count / std::max<int64_t>(1, least));
  if (parts < 2 || !Helpers::instance().run(count, (count + parts - 1) / parts, threads, body, context))
    body(context, 0, count);
}

}  // namespace dragoman
