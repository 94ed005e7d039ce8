// The variants of compute.cpp that this processor can run; VARIANTS lists the compiled ones, the best first.

#include "compute.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
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
bool runs_avx512vnni() {
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
}
// Linux saves a thread's tiles only for a process that has requested it; its threads and forks may use them, too.
bool runs_amx() {
#if defined(__linux__)
  constexpr int64_t kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  constexpr unsigned kTileAndInt8 = 3u << 24;                      // Clang's __builtin_cpu_supports lacks both
  unsigned a, b, c, d = 0;
  return runs_avx512vnni() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTileAndInt8) == kTileAndInt8 &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
bool runs_avxvnni() { return runs_avx2() && __builtin_cpu_supports("avxvnni"); }
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
