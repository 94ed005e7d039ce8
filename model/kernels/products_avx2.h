// Products with AVX2, and with AVX-VNNI where there is that, too; included by products.h, inside of the namespace.

constexpr int kMostRows = 5;
#define SKIPS_ZEROS
// kMostTenths: after ReLU, if at most so many tenths of the groups are not zero, only those are multiplied.

#if defined(__AVXVNNI__)
constexpr uint8_t kZeroPoint = 128;
constexpr int64_t kMostTenths = 4;

// Activations of two groups of one row, each group repeated through a register.
struct Two {
  __m256i first, second;
};

inline Two two_of(const uint8_t* q, int64_t, int64_t group) {
  return {_mm256_set1_epi32(four_at(q + group * kGroup)), _mm256_set1_epi32(four_at(q + (group + 1) * kGroup))};
}

inline __m256i factors_of(const int8_t* weights) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
}

inline __m256i add_two(__m256i sums, const Two& activations, __m256i first, __m256i second) {
  return _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(sums, activations.first, first), activations.second, second);
}

// The same for activations that are not negative, without the zero point.
inline __m256i add_positive(__m256i sums, __m256i a, __m256i b, __m256i first, __m256i second) {
  return add_two(sums, {a, b}, first, second);
}
#else
#include "pair_sums.h"
#endif

constexpr int32_t kZeroGroup = static_cast<int32_t>(kZeroPoint * 0x01010101u);

template <int Rows>
inline void multiply(const int8_t* weight, const uint8_t* q, int64_t stride, int64_t groups, int32_t* tile) {
  // 16 registers do not hold the sums of a whole block. So each part of the outputs in turn is multiplied with the same
  // 32 groups, whose weights stay in the fastest cache. Weights of later turns are fetched ahead: the processor does not
  // recognise this order by itself.
  constexpr int kWide = Rows == 1 ? 8 : 2;
  constexpr int64_t kBytesAhead = 16384, kLine = 64, kWidth = 32, kRegisters = kBlock * kGroup / kWidth;
  const int64_t turn = Rows == 1 ? groups : 32;
  for (int64_t start = 0; start < groups; start += turn) {
    const int64_t end = turn < groups - start ? start + turn : groups;
    for (int64_t part = 0; part < kBlock * kGroup; part += kWide * kWidth) {
      auto* to = reinterpret_cast<__m256i*>(tile + part / kGroup);
      __m256i sums[Rows][kWide];
      UNROLL
      for (int r = 0; r < Rows; ++r)
        UNROLL
        for (int i = 0; i < kWide; ++i)
          sums[r][i] = start ? _mm256_loadu_si256(to + r * kRegisters + i) : _mm256_setzero_si256();
      for (int64_t g = start; g < end; g += 2) {
        const int8_t *v = weight + g * kBlock * kGroup + part, *w = v + kBlock * kGroup;
        UNROLL
        for (int64_t line = 0; line < kWide * kWidth; line += kLine) {
          __builtin_prefetch(v + line + kBytesAhead);
          __builtin_prefetch(w + line + kBytesAhead);
        }
        __m256i first[kWide], second[kWide];
        UNROLL
        for (int i = 0; i < kWide; ++i) {
          first[i] = factors_of(v + i * kWidth);
          second[i] = factors_of(w + i * kWidth);
        }
        UNROLL
        for (int r = 0; r < Rows; ++r) {
          const Two activations = two_of(q + r * stride, groups, g);
          UNROLL
          for (int i = 0; i < kWide; ++i) sums[r][i] = add_two(sums[r][i], activations, first[i], second[i]);
        }
      }
      UNROLL
      for (int r = 0; r < Rows; ++r)
        UNROLL
        for (int i = 0; i < kWide; ++i) _mm256_storeu_si256(to + r * kRegisters + i, sums[r][i]);
    }
  }
}

// Adds the products of some groups of one row to `sums` [kBlock], without the zero point. No activation is negative.
inline void add_listed(const int8_t* weight, const Listed* groups, int64_t count, int32_t* sums) {
  auto* to = reinterpret_cast<__m256i*>(sums);
  __m256i some[8];
  UNROLL
  for (int i = 0; i < 8; ++i) some[i] = _mm256_loadu_si256(to + i);
  for (int64_t n = 0; n < count; n += 2) {
    const Listed one = groups[n];
    const Listed other = n + 1 < count ? groups[n + 1] : Listed{one.group, 0};
    const auto* v = reinterpret_cast<const __m256i*>(weight + one.group * kBlock * kGroup);
    const auto* w = reinterpret_cast<const __m256i*>(weight + other.group * kBlock * kGroup);
    const __m256i a = _mm256_set1_epi32(one.four), b = _mm256_set1_epi32(other.four);
    UNROLL
    for (int i = 0; i < 8; ++i)
      some[i] = add_positive(some[i], a, b, _mm256_loadu_si256(v + i), _mm256_loadu_si256(w + i));
  }
  UNROLL
  for (int i = 0; i < 8; ++i) _mm256_storeu_si256(to + i, some[i]);
}
