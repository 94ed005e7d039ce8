// See compute.h. Compiled once for each variant, with VARIANT as its name.

#include "lanes.h"
#include "products.h"
#include "ranking.h"
#include "sampling.h"

#include <cmath>
#include <cstring>

namespace dragoman {
namespace {

constexpr int64_t kChunk = 512;

float quantise(const float* x, int64_t width, uint8_t* q) {
  float largest = 1e-30f, zero = 0;  // a row of zeros has to be divided by something
#pragma omp simd reduction(max : largest) reduction(+ : zero)
  for (int64_t i = 0; i < width; ++i) {
    largest = larger(largest, std::fabs(x[i]));
    zero += x[i] * 0.0f;  // integers hide infinities and NaN: their factor shall not
  }
  const float factor = 127.0f / largest;
#pragma omp simd
  for (int64_t i = 0; i < width; ++i)
    q[i] = static_cast<uint8_t>(rounded_bits(x[i] * factor) + kZeroPoint);
  for (int64_t i = width; i % (2 * kGroup) != 0; ++i) q[i] = kZeroPoint;
  arrange(q, groups_for(width));
  return largest / 127.0f + zero;
}

// The largest of some numbers, in four chains of registers: each step of one would wait for the last.
inline float largest_of(const float* x, int64_t count) {
  constexpr int64_t kWide = 4 * kLanes;
  float chains[kWide], largest = -INFINITY;
  for (float& one : chains) one = -INFINITY;
  const int64_t whole = count / kWide * kWide;
  for (int64_t first = 0; first < whole; first += kWide)
#pragma omp simd
    for (int64_t i = 0; i < kWide; ++i) chains[i] = larger(chains[i], x[first + i]);
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < kWide; ++i) largest = larger(largest, chains[i]);
#pragma omp simd reduction(max : largest)
  for (int64_t i = whole; i < count; ++i) largest = larger(largest, x[i]);
  return largest;
}

// e^(x - largest) of each, into `out`, which may be x; returns their sum.
inline float exponentials(const float* x, int64_t count, float largest, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = exp_of_negative(x[i] - largest);
  const int64_t whole = count / kLanes * kLanes;
  Lanes sums[4] = {load_some(out + whole, count - whole)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= whole; i += 4 * kLanes)
    UNROLL
    for (int64_t n = 0; n < 4; ++n) sums[n] = sums[n] + load(out + i + n * kLanes);
  for (int64_t n = 0; i < whole; i += kLanes, ++n) sums[n] = sums[n] + load(out + i);
  return total_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <Epilogue epilogue>
inline void finish(float* out, float value) {
  if constexpr (epilogue == Epilogue::store) *out = value;
  if constexpr (epilogue == Epilogue::relu) *out = larger(value, 0.0f);
  if constexpr (epilogue == Epilogue::gelu) *out = 0.5f * value * (1.0f + error_function(value * 0.70710678f));
  if constexpr (epilogue == Epilogue::swish) {
    const float e = exp_of_negative(-std::fabs(value));  // sigmoid(x) = 1 / (1 + e^-x), or e^x / (1 + e^x)
    *out = value * (value < 0 ? e : 1.0f) / (1.0f + e);
  }
  if constexpr (epilogue == Epilogue::add) *out += value;
}

// Writes one row of a block from its products.
template <Epilogue epilogue>
inline void finish_row(const Linear& layer, const int32_t* products, float scale, int64_t block, float* out) {
  const int64_t first = block * kBlock;
  const float *weight_scale = layer.scale + first, *bias = layer.bias + first;
  const int32_t* sum128 = layer.sum128 + first;
  const int64_t width = layer.out - first < kBlock ? layer.out - first : kBlock;
  float values[kBlock];
#pragma omp simd
  for (int64_t i = 0; i < kBlock; ++i) {
    const int32_t product = products[i] - (kZeroPoint ? sum128[i] : 0);
    values[i] = static_cast<float>(product) * weight_scale[i] * scale + bias[i];
  }
  if (width == kBlock) {
#pragma omp simd
    for (int64_t i = 0; i < kBlock; ++i) finish<epilogue>(out + i, values[i]);
  } else {
    for (int64_t i = 0; i < width; ++i) finish<epilogue>(out + i, values[i]);
  }
}

template <int Rows, Epilogue epilogue>
void linear_rows(const Linear& layer, const uint8_t* q, const float* scales, int64_t block, float* out, int64_t stride) {
  int32_t products[Rows * kBlock];
  const int8_t* weight = layer.weight + block * layer.groups * kBlock * kGroup;
  const int64_t bytes = row_bytes(layer.groups);
  multiply<Rows>(weight, q, bytes, layer.groups, products);
  for (int r = 0; r < Rows; ++r) add_rest(weight, q + r * bytes, layer.groups, products + r * kBlock);
  for (int r = 0; r < Rows; ++r)
    finish_row<epilogue>(layer, products + r * kBlock, scales[r], block, out + r * stride);
}

template <int Rows, Epilogue epilogue>
void linear_few(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t block, float* out,
                int64_t stride) {
  if (rows == Rows) return linear_rows<Rows, epilogue>(layer, q, scales, block, out, stride);
  if constexpr (Rows > 1) linear_few<Rows - 1, epilogue>(layer, q, scales, rows, block, out, stride);
}

// No more rows at a time than the registers hold, and about as many each time: a single one takes nearly as long as two.
template <Epilogue epilogue>
void linear_block(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t block, float* out,
                  int64_t stride) {
  int64_t row = 0;
  for (int64_t times = (rows + kMostRows - 1) / kMostRows; times > 0; --times) {
    const int64_t some = (rows - row + times - 1) / times;
    linear_few<kMostRows, epilogue>(layer, q + row * row_bytes(layer.groups), scales + row, some, block, out + row * stride,
                                    stride);
    row += some;
  }
}

#if defined(__AMX_INT8__)
template <Epilogue epilogue>
void linear_tiles(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t first, int64_t last,
                  float* out, int64_t stride) {
  const int64_t q_stride = layer.groups * kGroup, rest = rows % kTileRows, whole = rows - rest;
  const Tiles tiles(rest);
  int32_t products[kTileRows * kBlock];
  for (int64_t block = first; block < last; ++block) {
    const int8_t* weight = layer.weight + block * layer.groups * kBlock * kGroup;
    float* to = out + (block - first) * kBlock;
    const auto finish_rows = [&](int64_t row, int64_t count) {
      for (int64_t r = 0; r < count; ++r)
        finish_row<epilogue>(layer, products + r * kBlock, scales[row + r], block, to + (row + r) * stride);
    };
    for (int64_t row = 0; row < whole; row += kTileRows) {
      tiles.multiply(weight, q + row * q_stride, q_stride, layer.groups, products);
      finish_rows(row, kTileRows);
    }
    if (rest >= kFewestTileRows) {
      tiles.multiply_rest(weight, q + whole * q_stride, q_stride, layer.groups, products);
      finish_rows(whole, rest);
    } else {
      linear_block<epilogue>(layer, q + whole * q_stride, scales + whole, rest, block, to + whole * stride, stride);
    }
  }
}
#endif

template <Epilogue epilogue>
void linear_blocks(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t first, int64_t last,
                   float* out, int64_t stride) {
#if defined(__AMX_INT8__)
  if (rows >= kFewestTileRows && layer.groups % kTileGroups == 0)
    return linear_tiles<epilogue>(layer, q, scales, rows, first, last, out, stride);
#endif
  for (int64_t block = first; block < last; ++block)
    linear_block<epilogue>(layer, q, scales, rows, block, out + (block - first) * kBlock, stride);
}

#if defined(SKIPS_ZEROS)
// As many of a list's groups, and rows, as stay in the core's second cache.
constexpr int64_t kListed = 8192, kListedRows = 64;

// Whether it is faster to leave groups of zeros out.
bool skips(const Linear& layer, const uint8_t* q, int64_t rows) {
  if (!layer.follows_relu || layer.groups > kListed) return false;
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row, q += row_bytes(layer.groups))
    for (int64_t g = 0; g < layer.groups; ++g) count += four_at(q + g * kGroup) != kZeroGroup;
  return 10 * count <= kMostTenths * rows * layer.groups;
}

// Adds a layer's result as `linear_blocks` does, from the groups alone that are not 0.
void linear_some(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t first, int64_t last,
                 float* out, int64_t stride) {
  const int64_t bytes = row_bytes(layer.groups);
  Listed list[kListed];
  for (int64_t row = 0; row < rows;) {
    int64_t ends[kListedRows], listed = 0, count = 0;
    for (; row + listed < rows && listed < kListedRows && count + layer.groups <= kListed; ++listed) {
      const uint8_t* from = q + (row + listed) * bytes;
      for (int64_t g = 0; g < layer.groups; ++g) {
        const int32_t four = four_at(from + g * kGroup) ^ kZeroGroup;
        list[count] = {static_cast<int32_t>(g), four};
        count += four != 0;
      }
      ends[listed] = count;
    }
    for (int64_t block = first; block < last; ++block)
      for (int64_t r = 0; r < listed; ++r) {
        const int64_t begin = r ? ends[r - 1] : 0;
        const int8_t* weight = layer.weight + block * layer.groups * kGroup * kBlock;
        int32_t products[kBlock] = {};
        // `finish_row` subtracts it.
        if (kZeroPoint) std::memcpy(products, layer.sum128 + block * kBlock, sizeof products);
        add_listed(weight, list + begin, ends[r] - begin, products);
        add_rest(weight, q + (row + r) * bytes, layer.groups, products);
        finish_row<Epilogue::add>(layer, products, scales[row + r], block,
                                  out + (row + r) * stride + (block - first) * kBlock);
      }
    row += listed;
  }
}
#endif

void linear(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t first, int64_t last,
            Epilogue epilogue, float* out, int64_t stride) {
  switch (epilogue) {
    case Epilogue::store: return linear_blocks<Epilogue::store>(layer, q, scales, rows, first, last, out, stride);
    case Epilogue::relu: return linear_blocks<Epilogue::relu>(layer, q, scales, rows, first, last, out, stride);
    case Epilogue::gelu: return linear_blocks<Epilogue::gelu>(layer, q, scales, rows, first, last, out, stride);
    case Epilogue::swish: return linear_blocks<Epilogue::swish>(layer, q, scales, rows, first, last, out, stride);
    case Epilogue::add:
#if defined(SKIPS_ZEROS)
      if (skips(layer, q, rows)) return linear_some(layer, q, scales, rows, first, last, out, stride);
#endif
      return linear_blocks<Epilogue::add>(layer, q, scales, rows, first, last, out, stride);
  }
}

// The exact product of a row of activations with a row of weights; compilers know the loops of whole numbers.
inline int32_t dot(const uint8_t* q, const int8_t* weight, int64_t width) {
  int32_t sum = 0;
  if constexpr (kZeroPoint) {
    for (int64_t i = 0; i < width; ++i) sum += q[i] * weight[i];
  } else {
    const auto* signed_q = reinterpret_cast<const int8_t*>(q);
    for (int64_t i = 0; i < width; ++i) sum += signed_q[i] * weight[i];
  }
  return sum;
}

void select(const Linear& layer, const uint8_t* q, float scale, const int32_t* places, int64_t count, float* out) {
  const int64_t width = layer.groups * kGroup;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = places[i];
    const int8_t* weight = layer.weight + place * width;
    const int32_t product =
        dot(q, weight, width) + dot_rest(q, weight, layer.groups) - (kZeroPoint ? layer.sum128[place] : 0);
    out[i] = static_cast<float>(product) * layer.scale[place] * scale + layer.bias[place];
  }
}

void normalise(const float* x, const float* weight, const float* bias, float epsilon, int64_t width, float* out) {
  const int64_t whole = width / kLanes * kLanes;
  Lanes sums = load_some(x + whole, width - whole);
  for (int64_t i = 0; i < whole; i += kLanes) sums = sums + load(x + i);
  const float mean = total_of(sums) / width;
  float rest[kLanes] = {};
  for (int64_t i = whole; i < width; ++i) rest[i - whole] = (x[i] - mean) * (x[i] - mean);
  Lanes squares = load(rest);
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Lanes distance = load(x + i) - mean;
    squares = squares + distance * distance;
  }
  const float factor = 1.0f / std::sqrt(total_of(squares) / width + epsilon);
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) out[i] = (x[i] - mean) * factor * weight[i] + bias[i];
}

void recur(const float* input, const float* gate, const float* before, int64_t width, float* after, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const float e = exp_of_negative(-std::fabs(gate[i])), forget = (gate[i] < 0 ? e : 1.0f) / (1.0f + e);
    after[i] = forget * before[i] + (1.0f - forget) * input[i];
    out[i] += larger(0.0f, after[i]);  // NaN stays
  }
}

void shorten(const float* x, int64_t width, BFloat16* out) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    out[i] = static_cast<BFloat16>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
  }
}

// Dim is 0 where the head dimension is known only when running.
template <int Dim, typename Number>
inline void score_keys(const float* q, const Number* k, int64_t length, int64_t stride, int64_t head_dim, float scale,
                       float* scores) {
  const int64_t dim = Dim ? Dim : head_dim, whole = dim / kLanes * kLanes;
  for (int64_t t = 0; t < length; t += 4) {
    Quarter sums[4];
    UNROLL
    for (int64_t n = 0; n < 4; ++n) {
      // The last one fills the missing places.
      const Number* key = k + (t + n < length ? t + n : length - 1) * stride;
      Lanes products = load_some(q + whole, dim - whole) * load_some(key + whole, dim - whole);
      for (int64_t i = 0; i < whole; i += kLanes) products = products + load(q + i) * load(key + i);
      sums[n] = quarter_of(products);
    }
    const Quarter four = totals_of(sums) * scale;
    std::memcpy(scores + t, &four, sizeof four);
  }
}

template <int Dim, typename Number>
inline void mix_values(const Number* v, int64_t length, int64_t stride, int64_t head_dim, const float* weights, float* out) {
  constexpr int64_t kWhole = Dim / kNative;
  if constexpr (kWhole > 0) {
    Native sums[kWhole] = {};
    for (int64_t t = 0; t < length; ++t) {
      UNROLL
      for (int64_t i = 0; i < kWhole; ++i) sums[i] += weights[t] * load_native(v + t * stride + i * kNative);
    }
    std::memcpy(out, sums, sizeof sums);
  } else {
    for (int64_t i = 0; i < head_dim; ++i) out[i] = 0;
    for (int64_t t = 0; t < length; ++t)
#pragma omp simd
      for (int64_t i = 0; i < head_dim; ++i) out[i] += weights[t] * number(v[t * stride + i]);
  }
}

template <int Dim, typename Number>
inline void attend_dim(const Query<Number>* queries, int64_t count, int64_t length, int64_t stride, int64_t head_dim,
                       float scale, float* weights) {
  const int64_t padded = room_for(length);
  for (int64_t n = 0; n < count; ++n) {
    float* own = weights + n * padded;
    score_keys<Dim>(queries[n].query, queries[n].keys, length, stride, head_dim, scale, own);
    for (int64_t t = length; t < padded; ++t) own[t] = -INFINITY;
  }
  for (int64_t n = 0; n < count; ++n) {
    float *own = weights + n * padded, largest = -INFINITY;
#pragma omp simd reduction(max : largest)
    for (int64_t t = 0; t < padded; ++t) largest = larger(largest, own[t]);
    const float share = 1.0f / exponentials(own, padded, largest, own);
#pragma omp simd
    for (int64_t t = 0; t < padded; ++t) own[t] *= share;
  }
  for (int64_t n = 0; n < count; ++n)
    mix_values<Dim>(queries[n].values, length, stride, head_dim, weights + n * padded, queries[n].out);
}

template <typename Number>
void attend(const Query<Number>* queries, int64_t count, int64_t length, int64_t stride, int64_t head_dim, float scale,
            float* weights) {
  switch (head_dim) {
    case 32: return attend_dim<32>(queries, count, length, stride, head_dim, scale, weights);
    case 64: return attend_dim<64>(queries, count, length, stride, head_dim, scale, weights);
    default: return attend_dim<0>(queries, count, length, stride, head_dim, scale, weights);
  }
}

Summary summarise(const float* logits, int64_t width, float floor) {
  const float largest = largest_of(logits, width);
  float total = 0, ignored[kChunk];
  for (int64_t i = 0; i < width; i += kChunk)
    total += exponentials(logits + i, width - i < kChunk ? width - i : kChunk, largest, ignored);
  int64_t place = 0;
  if (largest > floor)
    while (place < width - 1 && logits[place] != largest) ++place;
  return {largest, total, place};
}

inline bool any_above(const float* x, int64_t count, float bar) {
  float largest = -INFINITY;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) largest = larger(largest, x[i]);
  return largest > bar;
}

void rank(const float* logits, int64_t width, int64_t start, Ranking& best) {
  int64_t next = 0;
  for (; next < width && best.found < best.room; ++next) push(best, logits[next], start + next);
  // Of a long row hardly a block has one that counts, and of that hardly a part.
  const float& bar = best.values[best.room - 1];
  for (int64_t first = next; first < width; first += kBlock) {
    const int64_t end = width - first < kBlock ? width : first + kBlock;
    if (!any_above(logits + first, end - first, bar)) continue;
    for (int64_t part = first; part < end; part += kLanes) {
      const int64_t last = end - part < kLanes ? end : part + kLanes;
      if (!any_above(logits + part, last - part, bar)) continue;
      for (int64_t i = part; i < last; ++i) push(best, logits[i], start + i);
    }
  }
}

int64_t weigh(const float* logits, int64_t width, float largest, float temperature, float* scores, float* weights,
              float* best) {
  int64_t whole = 0, rest = 0;
  for (int64_t first = 0; first < width; first += kNeighbours) {
    const int64_t last = width - first < kNeighbours ? width : first + kNeighbours;
    float top = -INFINITY;
#pragma omp simd reduction(+ : whole, rest) reduction(max : top)
    for (int64_t i = first; i < last; ++i) {
      scores[i] = (logits[i] - largest) / temperature;
      weights[i] = share(exp_of_negative(scores[i]));
      top = larger(top, scores[i]);
      // In two halves, since few processors make 64-bit integers of many numbers at once.
      const float scaled = weights[i] * 0x1p20f;
      const int32_t units = static_cast<int32_t>(scaled);
      whole += units;
      rest += static_cast<int32_t>((scaled - static_cast<float>(units)) * 0x1p20f);
    }
    best[first / kNeighbours] = top;
  }
  return (whole << 20) + rest;
}

int64_t draw(const float* logits, int64_t width, int64_t best, const Sampling& options) {
  Draw draw(best, 0, noise_bits(options.noise, best));
  const float largest = logits[best];
  for (int64_t first = 0; first < width; first += kBlock) {
    const int64_t size = width - first < kBlock ? width - first : kBlock;
    float scores[kBlock], weights[kBlock];
    int32_t distances[kBlock], possible = 0;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      scores[i] = (logits[first + i] - largest) / options.temperature;
      weights[i] = exp_of_negative(scores[i]);
    }
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) distances[i] = Draw::distance(noise_bits(options.noise, first + i));
#pragma omp simd reduction(+ : possible)
    for (int64_t i = 0; i < size; ++i) possible += !draw.is_hopeless(distances[i], weights[i]);
    if (possible == 0) continue;
    for (int64_t i = 0; i < size; ++i)
      if (!draw.is_hopeless(distances[i], weights[i]))
        draw.push(first + i, scores[i], noise_bits(options.noise, first + i));
  }
  return draw.token;
}

}  // namespace

const Kernels& VARIANT() {
#define NAME_OF(variant) #variant
#define NAMED(variant) NAME_OF(variant)
  static const Kernels all = {NAMED(VARIANT), row_bytes, quantise, linear, select, normalise, recur, attend<float>,
                              attend<BFloat16>, shorten, summarise, rank, weigh, draw};
  return all;
}

}  // namespace dragoman
