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

// The exact products of `Rows` rows of activations with a block of weights: tile[row][output]. `kMostRows` is how many
// rows' sums the registers hold.
#if defined(__AVX512VNNI__)

constexpr int kMostRows = 6;
// Few rows wait for their weights, which the processor by itself does not fetch early enough.
constexpr int64_t kBytesAhead = 4096;
constexpr uint8_t kZeroPoint = 128;  // the instruction multiplies unsigned activations with signed weights

template <int Rows>
inline void multiply(const int8_t* weight, const uint8_t* q, int64_t stride, int64_t groups, int32_t* tile) {
  __m512i sums[Rows][4];
  UNROLL
  for (int r = 0; r < Rows; ++r)
    UNROLL
    for (int i = 0; i < 4; ++i) sums[r][i] = _mm512_setzero_si512();
  for (int64_t g = 0; g < groups; ++g) {
    const int8_t* w = weight + g * kBlock * kGroup;
    UNROLL
    for (int i = 0; i < 4; ++i) __builtin_prefetch(w + kBytesAhead + 64 * i);
    __m512i weights[4] = {_mm512_loadu_si512(w), _mm512_loadu_si512(w + 64), _mm512_loadu_si512(w + 128),
                          _mm512_loadu_si512(w + 192)};
    UNROLL
    for (int i = 0; i < 4; ++i) __asm__("" : "+v"(weights[i]));  // GCC would load them again for each row of 2 or 3
    UNROLL
    for (int r = 0; r < Rows; ++r) {
      int32_t four;
      std::memcpy(&four, q + r * stride + g * kGroup, sizeof four);
      const __m512i activations = _mm512_set1_epi32(four);
      UNROLL
      for (int i = 0; i < 4; ++i) sums[r][i] = _mm512_dpbusd_epi32(sums[r][i], activations, weights[i]);
    }
  }
  UNROLL
  for (int r = 0; r < Rows; ++r)
    UNROLL
    for (int i = 0; i < 4; ++i) _mm512_storeu_si512(tile + r * kBlock + i * 16, sums[r][i]);
}

#if defined(__AMX_INT8__)

// Matrix registers ("tiles") of 16 rows: 64 bytes of q each, four groups of weights for 16 outputs, or 16 sums. They need
// whole 64 bytes of a row, and pay from `kFewestTileRows` rows on.
constexpr int64_t kTileRows = 16, kTileGroups = 16, kFewestTileRows = 8;

// The tiles of a thread, set up for as long as this lives, for 16 rows at a time or the last `rest`.
class Tiles {
 public:
  explicit Tiles(int64_t rest) {
    struct {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    static_assert(sizeof config == 64);
    for (int tile = 0; tile < 8; ++tile) {
      config.bytes[tile] = 64;
      config.rows[tile] = tile < 6 || rest == 0 ? kTileRows : rest;
    }
    __asm__ volatile("" : : "r"(&config) : "memory");  // GCC believes that the next line reads 8 bytes
    _tile_loadconfig(&config);
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() { _tile_release(); }

  // The exact products of 16 rows with a block of weights: products[row][output].
  void multiply(const int8_t* weight, const uint8_t* q, int64_t stride, int64_t groups, int32_t* products) const {
    constexpr int64_t kRow = kBlock * kGroup, kColumn = 16 * kGroup;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t g = 0; g < groups; g += kTileGroups) {
      const int8_t* w = weight + g * kRow;
      _tile_loadd(4, q + g * kGroup, stride);
      _tile_loadd(5, w, kRow);
      _tile_dpbusd(0, 4, 5);
      _tile_loadd(5, w + kColumn, kRow);
      _tile_dpbusd(1, 4, 5);
      _tile_loadd(5, w + 2 * kColumn, kRow);
      _tile_dpbusd(2, 4, 5);
      _tile_loadd(5, w + 3 * kColumn, kRow);
      _tile_dpbusd(3, 4, 5);
    }
    constexpr int64_t kProducts = kBlock * sizeof(int32_t);
    _tile_stored(0, products, kProducts);
    _tile_stored(1, products + 16, kProducts);
    _tile_stored(2, products + 32, kProducts);
    _tile_stored(3, products + 48, kProducts);
  }

  // The same for the last rows.
  void multiply_rest(const int8_t* weight, const uint8_t* q, int64_t stride, int64_t groups, int32_t* products) const {
    for (int64_t column = 0; column < kBlock; column += 16) {
      _tile_zero(7);
      for (int64_t g = 0; g < groups; g += kTileGroups) {
        _tile_loadd(6, q + g * kGroup, stride);
        _tile_loadd(5, weight + (g * kBlock + column) * kGroup, kBlock * kGroup);
        _tile_dpbusd(7, 6, 5);
      }
      _tile_stored(7, products + column, kBlock * sizeof(int32_t));
    }
  }
};

#endif

#elif defined(__AVX2__)

// Of a layer that follows ReLU up to so many tenths of the groups are multiplied one by one, by `multiply_some`.
#if defined(__AVXVNNI__)
constexpr int64_t kMostTenths = 4;
constexpr uint8_t kZeroPoint = 128;

inline __m256i add_products(__m256i sums, __m256i activations, __m256i weights) {
  return _mm256_dpbusd_avx_epi32(sums, activations, weights);
}

inline __m256i add_positive(__m256i sums, __m256i activations, __m256i weights) {
  return add_products(sums, activations, weights);
}
#else
constexpr int64_t kMostTenths = 10;  // there is less to do without signs
// Pairs are added in 16 bits, which magnitudes up to 127 do not overflow (2 * 127 * 127 < 32767): hence the activations
// go in without their signs, and the weights take them over.
constexpr uint8_t kZeroPoint = 0;

inline __m256i add_positive(__m256i sums, __m256i activations, __m256i weights) {
  const __m256i pairs = _mm256_maddubs_epi16(activations, weights);
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

inline __m256i add_products(__m256i sums, __m256i activations, __m256i weights) {
  return add_positive(sums, _mm256_abs_epi8(activations), _mm256_sign_epi8(weights, activations));
}
#endif

constexpr int kMostRows = 3;

template <int Rows>
inline void multiply(const int8_t* weight, const uint8_t* q, int64_t stride, int64_t groups, int32_t* tile) {
  // Half a block at a time: there are 16 registers.
  for (int half = 0; half < 2; ++half) {
    __m256i sums[Rows][4];
    UNROLL
    for (int r = 0; r < Rows; ++r)
      UNROLL
      for (int i = 0; i < 4; ++i) sums[r][i] = _mm256_setzero_si256();
    for (int64_t g = 0; g < groups; ++g) {
      const auto* w = reinterpret_cast<const __m256i*>(weight + g * kBlock * kGroup + half * 128);
      UNROLL
      for (int r = 0; r < Rows; ++r) {
        int32_t four;
        std::memcpy(&four, q + r * stride + g * kGroup, sizeof four);
        const __m256i activations = _mm256_set1_epi32(four);
        UNROLL
        for (int i = 0; i < 4; ++i) sums[r][i] = add_products(sums[r][i], activations, _mm256_loadu_si256(w + i));
      }
    }
    UNROLL
    for (int r = 0; r < Rows; ++r)
      UNROLL
      for (int i = 0; i < 4; ++i)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile + r * kBlock + half * 32 + i * 8), sums[r][i]);
  }
}

#define SKIPS_ZEROS
constexpr int32_t kZeroGroup = static_cast<int32_t>(kZeroPoint * 0x01010101u);

inline int32_t group_of(const uint8_t* q, int64_t place) {
  int32_t four;
  std::memcpy(&four, q + place * kGroup, sizeof four);
  return four;
}

// Adds the products of the groups `places` [count] of one row to `sums` [kBlock], without the zero point. None of the
// row's activations is negative. Rows do not share the weights that they load.
inline void multiply_some(const int8_t* weight, const uint8_t* q, const int32_t* places, int64_t count, int32_t* sums) {
  auto* to = reinterpret_cast<__m256i*>(sums);
  __m256i some[8];
  UNROLL
  for (int i = 0; i < 8; ++i) some[i] = _mm256_loadu_si256(to + i);
  for (int64_t p = 0; p < count; ++p) {
    const __m256i activations = _mm256_set1_epi32(group_of(q, places[p]) ^ kZeroGroup);
    const auto* w = reinterpret_cast<const __m256i*>(weight + places[p] * kBlock * kGroup);
    UNROLL
    for (int i = 0; i < 8; ++i) some[i] = add_positive(some[i], activations, _mm256_loadu_si256(w + i));
  }
  UNROLL
  for (int i = 0; i < 8; ++i) _mm256_storeu_si256(to + i, some[i]);
}

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
        int32_t four;
        std::memcpy(&four, q + r * stride + g * kGroup, sizeof four);
        const int8x16_t activations = vreinterpretq_s8_s32(vdupq_n_s32(four));
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

}  // namespace
}  // namespace dragoman
