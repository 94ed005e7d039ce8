// See compute.h. Compiled once for each variant, with VARIANT as its name.

#include "compute.h"

#include <cmath>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

namespace dragoman {
namespace {

inline float larger(float a, float b) { return a > b ? a : b; }

// In one instruction where there is one; the compiler is told not to decide this by itself, as it could do so differently
// for different numbers of rows.
inline float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// e^x for x <= 0: the Taylor polynomial on [-ln2/2, ln2/2] times a power of two; relative error below 2.5e-7. Unlike
// std::exp the compiler can vectorise it.
inline float exp_of_negative(float x) {
  x = larger(x, -80.0f);  // nothing becomes a denormal number, which processors are slow at
  const float n = std::nearbyint(x * 1.44269504f);
  const float r = multiply_add(n, 2.12194440e-4f, multiply_add(n, -0.693359375f, x));
  float p = 1.0f / 720;
  p = multiply_add(p, r, 1.0f / 120);
  p = multiply_add(p, r, 1.0f / 24);
  p = multiply_add(p, r, 1.0f / 6);
  p = multiply_add(p, r, 0.5f);
  p = multiply_add(p, r, 1.0f);
  p = multiply_add(p, r, 1.0f);
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

// Or the compiler keeps the sums in memory.
#define UNROLL _Pragma("GCC unroll 8")

// The exact products of `Rows` rows of activations with a block of weights: tile[row][output]. `kMostRows` is how many
// rows' sums the registers hold.
#if defined(__AVX512VNNI__)

constexpr int kMostRows = 6;
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
    const __m512i weights[4] = {_mm512_loadu_si512(w), _mm512_loadu_si512(w + 64), _mm512_loadu_si512(w + 128),
                                _mm512_loadu_si512(w + 192)};
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

#elif defined(__AVX2__)

#if defined(__AVXVNNI__)
constexpr uint8_t kZeroPoint = 128;
inline __m256i add_products(__m256i sums, __m256i activations, __m256i weights) {
  return _mm256_dpbusd_avx_epi32(sums, activations, weights);
}
#else
// Pairs are added in 16 bits, which magnitudes up to 127 do not overflow (2 * 127 * 127 < 32767): hence the activations
// go in without their signs, and the weights take them over.
constexpr uint8_t kZeroPoint = 0;
inline __m256i add_products(__m256i sums, __m256i activations, __m256i weights) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(activations), _mm256_sign_epi8(weights, activations));
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
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

float quantise(const float* x, int64_t width, uint8_t* q) {
  float largest = 1e-30f;  // a row of zeros has to be divided by something
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < width; ++i) largest = larger(largest, std::fabs(x[i]));
  const float factor = 127.0f / largest;
#pragma omp simd
  for (int64_t i = 0; i < width; ++i)
    q[i] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(x[i] * factor)) + kZeroPoint);
  for (int64_t i = width; i % kGroup != 0; ++i) q[i] = kZeroPoint;
  return largest / 127.0f;
}

template <Then then>
inline void finish(float* out, float value) {
  if constexpr (then == Then::store) *out = value;
  if constexpr (then == Then::relu) *out = larger(value, 0.0f);
  if constexpr (then == Then::gelu) *out = 0.5f * value * (1.0f + std::erf(value * 0.70710678f));
  if constexpr (then == Then::swish) {
    const float e = exp_of_negative(-std::fabs(value));  // sigmoid(x) = 1 / (1 + e^-x), or e^x / (1 + e^x)
    *out = value * (value < 0 ? e : 1.0f) / (1.0f + e);
  }
  if constexpr (then == Then::add) *out += value;
}

template <int Rows, Then then>
void linear_rows(const Linear& layer, const uint8_t* q, const float* scales, int64_t block, float* out, int64_t stride) {
  int32_t tile[Rows * kBlock];
  const int64_t q_stride = layer.groups * kGroup, first = block * kBlock;
  multiply<Rows>(layer.weight + block * layer.groups * kBlock * kGroup, q, q_stride, layer.groups, tile);
  const float *weight_scale = layer.scale + first, *bias = layer.bias + first;
  const int32_t* sum128 = layer.sum128 + first;
  const int64_t width = layer.out - first < kBlock ? layer.out - first : kBlock;
  for (int r = 0; r < Rows; ++r) {
    float values[kBlock];
#pragma omp simd
    for (int64_t i = 0; i < kBlock; ++i) {
      const int32_t product = tile[r * kBlock + i] - (kZeroPoint ? sum128[i] : 0);
      values[i] = multiply_add(static_cast<float>(product) * weight_scale[i], scales[r], bias[i]);
    }
    float* row = out + r * stride;
    if (width == kBlock) {
#pragma omp simd
      for (int64_t i = 0; i < kBlock; ++i) finish<then>(row + i, values[i]);
    } else {
      for (int64_t i = 0; i < width; ++i) finish<then>(row + i, values[i]);
    }
  }
}

// As many rows at a time as the registers hold, then the rest.
template <int Rows, Then then>
void linear_block(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t block, float* out,
                  int64_t stride) {
  int64_t r = 0;
  for (; r + Rows <= rows; r += Rows)
    linear_rows<Rows, then>(layer, q + r * layer.groups * kGroup, scales + r, block, out + r * stride, stride);
  if constexpr (Rows > 1)
    if (r < rows)
      linear_block<Rows - 1, then>(layer, q + r * layer.groups * kGroup, scales + r, rows - r, block, out + r * stride,
                                   stride);
}

template <Then then>
void linear_blocks(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t first, int64_t last,
                   float* out, int64_t stride) {
  for (int64_t block = first; block < last; ++block)
    linear_block<kMostRows, then>(layer, q, scales, rows, block, out + (block - first) * kBlock, stride);
}

void linear(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t first, int64_t last,
            Then then, float* out, int64_t stride) {
  switch (then) {
    case Then::store: return linear_blocks<Then::store>(layer, q, scales, rows, first, last, out, stride);
    case Then::relu: return linear_blocks<Then::relu>(layer, q, scales, rows, first, last, out, stride);
    case Then::gelu: return linear_blocks<Then::gelu>(layer, q, scales, rows, first, last, out, stride);
    case Then::swish: return linear_blocks<Then::swish>(layer, q, scales, rows, first, last, out, stride);
    case Then::add: return linear_blocks<Then::add>(layer, q, scales, rows, first, last, out, stride);
  }
}

void normalise(const float* x, const float* weight, const float* bias, int64_t width, float* out) {
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < width; ++i) sum += x[i];
  const float mean = sum / width;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float factor = 1.0f / std::sqrt(squares / width + 1e-5f);  // as torch.nn.LayerNorm
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) out[i] = multiply_add((x[i] - mean) * factor, weight[i], bias[i]);
}

// Dim is 0 where the head dimension is known only when running.
template <int Dim>
inline void attend_dim(const float* q, const float* k, const float* v, int64_t length, int64_t stride, int64_t head_dim,
                       float scale, float* weights, float* out) {
  const int64_t dim = Dim ? Dim : head_dim;
  float largest = -INFINITY;
  for (int64_t t = 0; t < length; ++t) {
    const float* key = k + t * stride;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < dim; ++i) sum = multiply_add(q[i], key[i], sum);
    weights[t] = sum * scale;
    largest = larger(largest, weights[t]);
  }
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t t = 0; t < length; ++t) {
    weights[t] = exp_of_negative(weights[t] - largest);
    total += weights[t];
  }
  const float share = 1.0f / total;
  float sums[Dim ? Dim : 1];
  float* mixed = Dim ? sums : out;
  for (int64_t i = 0; i < dim; ++i) mixed[i] = 0;
  for (int64_t t = 0; t < length; ++t) {
    weights[t] *= share;
    const float* value = v + t * stride;
#pragma omp simd
    for (int64_t i = 0; i < dim; ++i) mixed[i] = multiply_add(weights[t], value[i], mixed[i]);
  }
  if (Dim)
    for (int64_t i = 0; i < dim; ++i) out[i] = mixed[i];
}

void attend(const float* q, const float* k, const float* v, int64_t length, int64_t stride, int64_t head_dim,
            float scale, float* weights, float* out) {
  switch (head_dim) {
    case 32: return attend_dim<32>(q, k, v, length, stride, head_dim, scale, weights, out);
    case 64: return attend_dim<64>(q, k, v, length, stride, head_dim, scale, weights, out);
    default: return attend_dim<0>(q, k, v, length, stride, head_dim, scale, weights, out);
  }
}

Summary summarise(const float* logits, int64_t width) {
  float largest = -INFINITY, total = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < width; ++i) largest = larger(largest, logits[i]);
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < width; ++i) total += exp_of_negative(logits[i] - largest);
  int64_t place = 0;
  while (place < width - 1 && logits[place] != largest) ++place;
  return {largest, total, place};
}

void rank(const float* logits, int64_t width, float largest, float log_total, float start, int64_t count,
          int64_t* places, float* values) {
  int64_t found = 0;
  for (int64_t first = 0; first < width; first += kBlock) {
    const int64_t size = width - first < kBlock ? width - first : kBlock;
    float block[kBlock], best = -INFINITY;
#pragma omp simd reduction(max : best)
    for (int64_t i = 0; i < size; ++i) {
      block[i] = (logits[first + i] - largest - log_total) + start;
      best = larger(best, block[i]);
    }
    // Of a long row hardly a block has one that counts.
    if (found == count && !(best > values[count - 1])) continue;
    for (int64_t i = 0; i < size; ++i) {
      if (found == count && !(block[i] > values[count - 1])) continue;
      int64_t at = found < count ? found++ : count - 1;
      for (; at > 0 && block[i] > values[at - 1]; --at) {
        values[at] = values[at - 1];
        places[at] = places[at - 1];
      }
      values[at] = block[i];
      places[at] = first + i;
    }
  }
}

}  // namespace

const Kernels& VARIANT() {
#define NAME_OF(variant) #variant
#define NAMED(variant) NAME_OF(variant)
  static const Kernels all = {NAMED(VARIANT), quantise, linear, normalise, attend, summarise, rank};
  return all;
}

}  // namespace dragoman
