// Sixteen numbers side by side, in as many registers as the processor needs for them: every processor adds in the same
// order. A part of compute.cpp.

#pragma once

#include "compute.h"

#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace dragoman {
namespace {

// Or the compiler keeps the sums in memory.
#define UNROLL _Pragma("GCC unroll 8")

#if defined(__AVX512F__)
constexpr int64_t kNative = 16;
#elif defined(__AVX2__)
constexpr int64_t kNative = 8;
#else
constexpr int64_t kNative = 4;
#endif

constexpr int64_t kParts = kLanes / kNative;

typedef float Native __attribute__((vector_size(kNative * sizeof(float))));
typedef float Quarter __attribute__((vector_size(kLanes / 4 * sizeof(float))));

struct Lanes {
  Native parts[kParts];
};

inline Lanes operator+(Lanes a, const Lanes& b) {
  UNROLL
  for (int i = 0; i < kParts; ++i) a.parts[i] += b.parts[i];
  return a;
}

inline Lanes operator*(Lanes a, const Lanes& b) {
  UNROLL
  for (int i = 0; i < kParts; ++i) a.parts[i] *= b.parts[i];
  return a;
}

inline Lanes operator-(Lanes a, float b) {
  UNROLL
  for (int i = 0; i < kParts; ++i) a.parts[i] -= b;
  return a;
}

inline float number(float x) { return x; }

inline float number(BFloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float widened;
  std::memcpy(&widened, &bits, sizeof widened);
  return widened;
}

inline Native load_native(const float* from) {
  Native numbers;
  std::memcpy(&numbers, from, sizeof numbers);
  return numbers;
}

inline Native load_native(const BFloat16* from) {
#if defined(__AVX512F__)
  const __m256i shorts = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return reinterpret_cast<Native>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(shorts), 16));
#elif defined(__AVX2__)
  const __m128i shorts = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return reinterpret_cast<Native>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(shorts), 16));
#elif defined(__SSE2__)
  const __m128i shorts = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return reinterpret_cast<Native>(_mm_unpacklo_epi16(_mm_setzero_si128(), shorts));
#elif defined(__ARM_NEON)
  return reinterpret_cast<Native>(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from)), 16));
#else
  return Native{number(from[0]), number(from[1]), number(from[2]), number(from[3])};
#endif
}

template <typename Number>
inline Lanes load(const Number* from) {
  Lanes lanes;
  UNROLL
  for (int i = 0; i < kParts; ++i) lanes.parts[i] = load_native(from + i * kNative);
  return lanes;
}

// The first `count` of a row's last numbers, and zeros.
template <typename Number>
inline Lanes load_some(const Number* from, int64_t count) {
  Number some[kLanes] = {};
  std::memcpy(some, from, count * sizeof(Number));
  return load(some);
}

// The second half is added to the first, and so on.
inline Quarter quarter_of(const Lanes& lanes) {
#if defined(__AVX512F__)
  const __m512 all = reinterpret_cast<__m512>(lanes.parts[0]);
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  return reinterpret_cast<Quarter>(_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
#elif defined(__AVX2__)
  const __m256 half = reinterpret_cast<__m256>(lanes.parts[0] + lanes.parts[1]);
  return reinterpret_cast<Quarter>(_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
#else
  return (lanes.parts[0] + lanes.parts[2]) + (lanes.parts[1] + lanes.parts[3]);
#endif
}

inline float total_of(const Lanes& lanes) {
  const Quarter sums = quarter_of(lanes);
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// The same for four at a time.
inline Quarter totals_of(const Quarter* sums) {
  const Quarter first = __builtin_shufflevector(sums[0], sums[1], 0, 1, 4, 5) +
                        __builtin_shufflevector(sums[0], sums[1], 2, 3, 6, 7);
  const Quarter last = __builtin_shufflevector(sums[2], sums[3], 0, 1, 4, 5) +
                       __builtin_shufflevector(sums[2], sums[3], 2, 3, 6, 7);
  return __builtin_shufflevector(first, last, 0, 2, 4, 6) + __builtin_shufflevector(first, last, 1, 3, 5, 7);
}

}  // namespace
}  // namespace dragoman
