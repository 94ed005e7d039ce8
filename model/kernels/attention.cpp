// Attention over rows of different length, without padding: each query looks at exactly the keys that are its own.
//
// A row's result is a function of that row alone, computed in the same order whatever else is in the batch: the same
// bits alone and among others. Keys and values are read where the cache keeps them; nothing is gathered first.
// float32 on a CPU.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

// One build for every x86-64 level: the loader picks the variant for the processor it runs on. Compilers that cannot do
// that would build for the oldest processors, where this is slower than PyTorch.
#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ < 12)
#error "GCC 12 or newer is needed on x86-64"
#elif defined(__x86_64__)
#define FOR_EACH_LEVEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_LEVEL
#endif

namespace {

// e^x for x <= 0: the Taylor polynomial on [-ln2/2, ln2/2] times a power of two; relative error below 2.5e-7. Unlike
// std::exp the compiler can vectorise it.
inline float exp_of_negative(float x) {
  x = std::max(x, -80.0f);  // nothing becomes a denormal number, which processors are slow at
  const float n = std::nearbyint(x * 1.44269504f);
  const float r = std::fma(n, 2.12194440e-4f, std::fma(n, -0.693359375f, x));
  float p = 1.0f / 720;
  p = std::fma(p, r, 1.0f / 120);
  p = std::fma(p, r, 1.0f / 24);
  p = std::fma(p, r, 1.0f / 6);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

// softmax(q k^T * scale) v of one query and one head, over `length` keys that stand `stride` floats apart.
FOR_EACH_LEVEL void attend(const float* q, const float* k, const float* v, int64_t length, int64_t stride,
                           int64_t head_dim, float scale, float* scores, float* out) {
  float largest = -INFINITY;
  for (int64_t t = 0; t < length; ++t) {
    const float* key = k + t * stride;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < head_dim; ++i) sum += q[i] * key[i];
    scores[t] = sum * scale;
    largest = std::max(largest, scores[t]);
  }
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t t = 0; t < length; ++t) {
    scores[t] = exp_of_negative(scores[t] - largest);
    total += scores[t];
  }
  std::fill_n(out, head_dim, 0.0f);
  for (int64_t t = 0; t < length; ++t) {
    const float weight = scores[t] / total;
    const float* value = v + t * stride;
#pragma omp simd
    for (int64_t i = 0; i < head_dim; ++i) out[i] += weight * value[i];
  }
}

// query [rows, heads, head_dim]; keys, values [slots, heads, positions, head_dim]; slots, lengths [rows]
at::Tensor attend_slots(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                        const at::Tensor& slots, const at::Tensor& lengths) {
  const int64_t rows = query.size(0), heads = query.size(1), head_dim = query.size(2);
  TORCH_CHECK(query.is_contiguous() && keys.is_contiguous() && values.is_contiguous() && slots.is_contiguous() &&
                  lengths.is_contiguous(), "attend_slots: a tensor is not contiguous");
  TORCH_CHECK(keys.sizes() == values.sizes() && keys.size(1) == heads && keys.size(3) == head_dim &&
                  slots.numel() == rows && lengths.numel() == rows, "attend_slots: shapes do not match");
  at::Tensor out = at::empty(query.sizes(), query.options());
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  const int64_t* slot = slots.const_data_ptr<int64_t>();
  const int64_t* length = lengths.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < rows; ++row)
    TORCH_CHECK(0 <= slot[row] && slot[row] < keys.size(0) && 0 < length[row] && length[row] <= keys.size(2),
                "attend_slots: row ", row, " looks at ", length[row], " positions of slot ", slot[row]);
  const float *q = query.const_data_ptr<float>(), *k = keys.const_data_ptr<float>(), *v = values.const_data_ptr<float>();
  float* result = out.mutable_data_ptr<float>();
  at::parallel_for(0, rows * heads, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(keys.size(2));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / heads, head = i % heads;
      const int64_t start = slot[row] * keys.stride(0) + head * keys.stride(1);
      attend(q + i * head_dim, k + start, v + start, length[row], head_dim, head_dim, scale, scores.data(),
             result + i * head_dim);
    }
  });
  return out;
}

// query, keys, values [tokens, heads, head_dim]: sequence s is tokens offsets[s]..offsets[s + 1], offsets [sequences + 1]
at::Tensor attend_packed(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                         const at::Tensor& offsets) {
  const int64_t tokens = query.size(0), heads = query.size(1), head_dim = query.size(2), width = heads * head_dim;
  TORCH_CHECK(query.is_contiguous() && keys.is_contiguous() && values.is_contiguous() && offsets.is_contiguous(),
              "attend_packed: a tensor is not contiguous");
  TORCH_CHECK(keys.sizes() == query.sizes() && values.sizes() == query.sizes(), "attend_packed: shapes do not match");
  at::Tensor out = at::empty(query.sizes(), query.options());
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  const int64_t* offset = offsets.const_data_ptr<int64_t>();
  const int64_t sequences = offsets.size(0) - 1;
  TORCH_CHECK(sequences >= 0 && offset[0] == 0 && offset[sequences] == tokens,
              "attend_packed: offsets do not cover the ", tokens, " tokens");
  for (int64_t s = 0; s < sequences; ++s)
    TORCH_CHECK(offset[s] <= offset[s + 1], "attend_packed: offsets go back at sequence ", s);
  std::vector<int64_t> sequence_of(tokens);
  int64_t longest = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    std::fill(sequence_of.begin() + offset[s], sequence_of.begin() + offset[s + 1], s);
    longest = std::max(longest, offset[s + 1] - offset[s]);
  }
  const float *q = query.const_data_ptr<float>(), *k = keys.const_data_ptr<float>(), *v = values.const_data_ptr<float>();
  float* result = out.mutable_data_ptr<float>();
  // A head at a time over a sequence's queries: its keys and values stay in the cache of the core.
  at::parallel_for(0, heads * tokens, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(longest);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / tokens, token = i % tokens;
      const int64_t first = offset[sequence_of[token]], length = offset[sequence_of[token] + 1] - first;
      const int64_t start = first * width + head * head_dim;
      const int64_t place = token * width + head * head_dim;
      attend(q + place, k + start, v + start, length, width, head_dim, scale, scores.data(), result + place);
    }
  });
  return out;
}

}  // namespace

TORCH_LIBRARY(dragoman, library) {
  library.def("attend_slots(Tensor query, Tensor keys, Tensor values, Tensor slots, Tensor lengths) -> Tensor");
  library.def("attend_packed(Tensor query, Tensor keys, Tensor values, Tensor offsets) -> Tensor");
}

TORCH_LIBRARY_IMPL(dragoman, CPU, library) {
  library.impl("attend_slots", attend_slots);
  library.impl("attend_packed", attend_packed);
}
