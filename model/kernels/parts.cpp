// See parts.h.

#include "parts.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "checks.h"

namespace dragoman {
namespace {

// The steps of a decoder follow one another within microseconds: to sleep between them would cost more than to spin.
constexpr int kSpins = 4096;
constexpr int kSpinsBeforeYield = 256;
// More of them balance better, fewer read shared rows less often.
constexpr int64_t kPartsOfAThread = 4;
// An engine that has had no work for so long will not want its core back at once.
constexpr std::chrono::milliseconds kIdle{1};
// A borrowed thread that is waited for longer than so, and than all other parts took, has lost its core to another
// program. None are borrowed for a while then.
constexpr std::chrono::milliseconds kPatience{1};
constexpr std::chrono::milliseconds kPause{20};

using Clock = std::chrono::steady_clock;

std::atomic<int64_t> own_threads{1};

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
    const uint64_t parts = (count + part - 1) / part;
    const int64_t helping = std::min<int64_t>(threads, parts) - 1;
    start_helpers(helping);
    body_ = body;
    context_ = context;
    count_ = count;
    part_ = part;
    failure_ = nullptr;
    unfinished_.store(parts, std::memory_order_relaxed);
    left_.store(static_cast<uint64_t>(++number_) << 32 | parts);
    // Last, since who sees the new number takes parts of it.
    for (int64_t i = 0; i < helping && i < static_cast<int64_t>(helpers_.size()); ++i) helpers_[i]->call(number_);
    const bool borrows = threads > own_threads.load();
    const Clock::time_point begin = borrows ? Clock::now() : Clock::time_point{};
    take_parts(number_);
    if (borrows)
      watch_helpers(begin);
    else
      wait_for_helpers();
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

  // Whether borrowed threads had no core of their own not long ago.
  bool stays_alone(Clock::time_point now) const { return now < alone_until_.load(); }

 private:
  class Helper {
   public:
    void call(uint32_t number) {
      number_.store(number);
      // Only then, since each notice is a system call.
      if (asleep_.load()) number_.notify_one();
    }

    // Waits for a job after `seen`.
    uint32_t next_job(uint32_t seen) {
      for (int spins = 0; number_.load() == seen && spins < kSpins; ++spins) pause();
      if (number_.load() == seen) {
        asleep_.store(true);
        number_.wait(seen);
        asleep_.store(false);
      }
      return number_.load();
    }

   private:
    alignas(64) std::atomic<uint32_t> number_{0};
    std::atomic<bool> asleep_{false};
  };

  void start_helpers(int64_t wanted) {
    try {
      if (static_cast<int64_t>(helpers_.size()) < wanted) helpers_.reserve(wanted);
      while (static_cast<int64_t>(helpers_.size()) < wanted) {
        auto helper = std::make_unique<Helper>();
        std::thread([this, &own = *helper] { help(own); }).detach();
        helpers_.push_back(std::move(helper));
      }
    } catch (const std::system_error&) {
      // The system allows no more threads now: those that are there take all parts.
    }
  }

  void help(Helper& own) {
    for (uint32_t seen = 0;;) {
      seen = own.next_job(seen);
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

  void wait_for_helpers() const {
    for (int spins = 0; unfinished_.load(std::memory_order_acquire); ++spins) {
      if (spins < kSpinsBeforeYield)
        pause();
      else
        std::this_thread::yield();
    }
  }

  // The job began at `begin`.
  void watch_helpers(Clock::time_point begin) {
    const Clock::time_point done = Clock::now();
    wait_for_helpers();
    const Clock::time_point end = Clock::now();
    if (end - done > std::max<Clock::duration>(kPatience, done - begin)) alone_until_ = end + kPause;
  }

  static inline std::atomic<Helpers*> current_ = nullptr;

  std::mutex busy_, failing_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::atomic<Clock::time_point> alone_until_{};
  Body body_ = nullptr;
  const void* context_ = nullptr;
  int64_t count_ = 0, part_ = 1;
  std::exception_ptr failure_;
  uint32_t number_ = 0;
  // The upper half is the job's number, the lower half the number of its parts that no thread has taken.
  alignas(64) std::atomic<uint64_t> left_{0};
  alignas(64) std::atomic<uint64_t> unfinished_{0};
};

// The times since which engines have no work, this engine's number, and the number of threads of all engines.
struct Lenders {
  const int64_t* idle_since = nullptr;
  int64_t engines = 0, own = 0, threads = 0;
} lenders;

}  // namespace

void set_threads(int64_t threads) { own_threads.store(threads); }

void lend_threads(const int64_t* idle_since, int64_t engines, int64_t own, int64_t threads) {
  require(0 <= own && own < engines, "lend_threads: engine ", own, " is none of ", engines);
  lenders = {idle_since, engines, own, threads};
}

int64_t usable_threads() {
  const int64_t own = own_threads.load();
  if (lenders.engines == 0) return own;
  const Clock::time_point now = Clock::now();
  const int64_t latest = std::chrono::nanoseconds(now.time_since_epoch() - kIdle).count();
  int64_t working = 1;
  for (int64_t engine = 0; engine < lenders.engines; ++engine) {
    if (engine == lenders.own) continue;
    // Older C++ libraries have no atomic_ref.
    const int64_t idle = __atomic_load_n(lenders.idle_since + engine, __ATOMIC_RELAXED);
    working += idle == 0 || idle > latest;
  }
  const int64_t share = lenders.threads / working;
  return share <= own || Helpers::instance().stays_alone(now) ? own : share;
}

void run_parts(int64_t count, int64_t least, Body body, const void* context) {
  if (count <= 0) return;
  const int64_t threads = usable_threads();
  int64_t parts = threads == 1 ? 1 : std::min(kPartsOfAThread * threads, count / std::max<int64_t>(1, least));
  if (parts > threads) parts -= parts % threads;  // or some would wait for the others' last ones
  if (parts < 2 || !Helpers::instance().run(count, (count + parts - 1) / parts, threads, body, context))
    body(context, 0, count);
}

}  // namespace dragoman
