// The variants of compute.cpp that this processor can run; VARIANTS lists the compiled ones, the best first.

#include "compute.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace dragoman {

#define DECLARE(variant) const Kernels& variant();
VARIANTS(DECLARE)
#undef DECLARE

namespace {

#if defined(__x86_64__)
// What the processor says of itself (CPUID), and which registers the system saves (XCR0). Not __builtin_cpu_supports: Zig
// has only a stand-in for it, which knows nothing.
struct Features {
  unsigned c1 = 0, b7 = 0, c7 = 0, d7 = 0, a71 = 0;
  uint64_t saved = 0;

  Features() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !(c1 >> 27 & 1)) return;  // OSXSAVE
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    saved = static_cast<uint64_t>(high) << 32 | low;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) b7 = c7 = d7 = 0;
    if (a == 0 || !__get_cpuid_count(7, 1, &a71, &b, &c, &d)) a71 = 0;
  }
};

bool has(uint64_t word, uint64_t bits) { return (word & bits) == bits; }

const Features& features() {
  static const Features all;
  return all;
}

bool runs_avx2() {
  constexpr unsigned kFma = 1u << 12, kAvx = 1u << 28, kBmi1 = 1u << 3, kAvx2 = 1u << 5, kBmi2 = 1u << 8;
  return has(features().saved, 0x6) && has(features().c1, kFma | kAvx) && has(features().b7, kBmi1 | kAvx2 | kBmi2);
}
bool runs_avxvnni() { return runs_avx2() && has(features().a71, 1u << 4); }
bool runs_avx512vnni() {
  constexpr unsigned kF = 1u << 16, kDq = 1u << 17, kCd = 1u << 28, kBw = 1u << 30, kVl = 1u << 31;
  return runs_avx2() && has(features().saved, 0xE6) && has(features().b7, kF | kDq | kCd | kBw | kVl) &&
         has(features().c7, 1u << 11);
}
// Linux saves a thread's tiles only for a process that has requested it; its threads and forks may use them, too.
bool runs_amx() {
#if defined(__linux__)
  constexpr int64_t kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return runs_avx512vnni() && has(features().d7, 3u << 24) &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif
#if defined(__aarch64__) && defined(__linux__)
bool runs_dotprod() { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }
#elif defined(__aarch64__)
bool runs_dotprod() { return true; }  // Apple's all do
#endif
bool runs_baseline() { return true; }

const Kernels*& chosen() {
  static const Kernels* variant = variants().front();
  return variant;
}

}  // namespace

std::vector<const Kernels*> variants() {
  std::vector<const Kernels*> all;
#define ADD(variant) \
  if (runs_##variant()) all.push_back(&variant());
  VARIANTS(ADD)
#undef ADD
  return all;
}

const Kernels& kernels() { return *chosen(); }

bool choose(const std::string& name) {
  for (const Kernels* each : variants())
    if (each->name == name) {
      chosen() = each;
      return true;
    }
  return false;
}

}  // namespace dragoman
