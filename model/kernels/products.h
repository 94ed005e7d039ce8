// Exact products of integers for the processor that it is compiled for; a part of compute.cpp.

#pragma once

#include "compute.h"

#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

namespace dragoman {
namespace {

inline int32_t four_at(const uint8_t* q) {
  int32_t four;
  std::memcpy(&four, q, sizeof four);
  return four;
}

// The number of a group in its row, and four activations to multiply its weights by.
struct Listed {
  int32_t group, four;
};

// For each kind of processor:
//   kMostRows         the most rows at once: the registers hold their sums
//   kZeroPoint        is added to activations, where the instruction wants them without a sign
//   multiply<Rows>    the exact products of so many rows with a block of weights: tile [row][output]
// Where SKIPS_ZEROS is defined, `add_listed` multiplies listed groups. Where SPLITS_ROWS is, a quantised row has more
// than its activations: `row_bytes`, `arrange`, `add_rest` and `dot_rest` are of pair_sums.h.
#if defined(__AVX512VNNI__)
#include "products_avx512.h"
#elif defined(__AVX2__)
#include "products_avx2.h"
#elif defined(__ARM_FEATURE_DOTPROD)

constexpr int kMostRows = 4;
constexpr uint8_t kZeroPoint = 0;

template <int Rows>
inline void multiply(const int8_t* weight, const uint8_t* q, int64_t stride, int64_t groups, int32_t* tile) {
  // A quarter of a block at a time: there are 32 registers, of four sums each.
  for (int quarter = 0; quarter < 4; ++quarter) {
    int32x4_t sums[Rows][4];
    UNROLL
    for (int r = 0; r < Rows; ++r)
      UNROLL
      for (int i = 0; i < 4; ++i) sums[r][i] = vdupq_n_s32(0);
    for (int64_t g = 0; g < groups; ++g) {
      const int8_t* w = weight + g * kBlock * kGroup + quarter * 64;
      const int8x16_t weights[4] = {vld1q_s8(w), vld1q_s8(w + 16), vld1q_s8(w + 32), vld1q_s8(w + 48)};
      UNROLL
      for (int r = 0; r < Rows; ++r) {
        const int8x16_t activations = vreinterpretq_s8_s32(vdupq_n_s32(four_at(q + r * stride + g * kGroup)));
        UNROLL
        for (int i = 0; i < 4; ++i) sums[r][i] = vdotq_s32(sums[r][i], weights[i], activations);
      }
    }
    UNROLL
    for (int r = 0; r < Rows; ++r)
      UNROLL
      for (int i = 0; i < 4; ++i) vst1q_s32(tile + r * kBlock + quarter * 16 + i * 4, sums[r][i]);
  }
}

#else

constexpr int kMostRows = 1;
constexpr uint8_t kZeroPoint = 0;

template <int Rows>
inline void multiply(const int8_t* weight, const uint8_t* q, int64_t, int64_t groups, int32_t* tile) {
  static_assert(Rows == 1);
  for (int64_t i = 0; i < kBlock; ++i) tile[i] = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const int8_t* w = weight + g * kBlock * kGroup;
    const auto* a = reinterpret_cast<const int8_t*>(q + g * kGroup);
    for (int64_t i = 0; i < kBlock; ++i)
      tile[i] += a[0] * w[i * kGroup] + a[1] * w[i * kGroup + 1] + a[2] * w[i * kGroup + 2] + a[3] * w[i * kGroup + 3];
  }
}

#endif

#if !defined(SPLITS_ROWS)
// Bytes of a quantised row.
inline int64_t row_bytes(int64_t groups) { return groups * kGroup; }
inline void arrange(uint8_t*, int64_t) {}
inline void add_rest(const int8_t*, const uint8_t*, int64_t, int32_t*) {}
inline int32_t dot_rest(const uint8_t*, const int8_t*, int64_t) { return 0; }
#endif

}  // namespace
}  // namespace dragoman
