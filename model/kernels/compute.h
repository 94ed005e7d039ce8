// Numeric kernels, compiled once for each kind of processor; `kernels()` picks one at load. The variants are all
// compute.cpp, with other instructions. No PyTorch here.
//
// Every function treats a row by itself, in an order that depends on nothing but the row: its result has the same bits
// alone and among others. Nothing depends on the variant either: sums are taken in the same order, and a product and a
// sum are never one rounding, which not every processor has. Other operations are in elementary.h.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dragoman {

// Outputs are packed in blocks, inputs in groups; both ends are filled up with zeros.
constexpr int64_t kBlock = 64, kGroup = 4;

// The number of groups that hold so many inputs, an even one: AVX2 adds two groups at a time.
constexpr int64_t groups_for(int64_t inputs) { return (inputs + 2 * kGroup - 1) / (2 * kGroup) * 2; }

// Sums are taken of so many numbers side by side.
constexpr int64_t kLanes = 16;

// The number of scores of a row that are examined together.
constexpr int64_t kNeighbours = 32;

// An int8 weight [out, in], each in -127..127, packed: [blocks][groups][kBlock][kGroup]; `scale`, `bias` and
// `sum128` (128 times the sum of a row of the weight, which unsigned activations add to its products) are
// [blocks * kBlock]. For `select` the weight is in rows instead: [out][groups * kGroup].
struct Linear {
  int64_t in, out, groups, blocks;
  const int8_t* weight;
  const float *scale, *bias;
  const int32_t* sum128;
  bool follows_relu = false;  // its inputs are never negative, and many of a trained model's are 0
};

// A linear layer's use of its result: it stores it, as it is or after an activation, or adds it to the output.
enum class Epilogue : int64_t { store, relu, gelu, swish, add };

// The upper half of a float's bits.
enum class BFloat16 : uint16_t {};

// One query of one head: query [head_dim], its first key and its first value -> out [head_dim].
template <typename Number>
struct Query {
  const float* query;
  const Number *keys, *values;
  float* out;
};

// Queries that are computed together: while one waits for its last result, the processor goes on with another.
constexpr int64_t kMostQueries = 4;

// How many numbers the weights of so many keys need: whole registers.
constexpr int64_t room_for(int64_t length) { return (length + kLanes - 1) / kLanes * kLanes; }

struct Sampling;
struct Ranking;

// Some logits of a row: the largest, its first place (or 0, if that is not needed), and the sum of
// exp(logit - largest).
struct Summary {
  float largest, total;
  int64_t place;
};

struct Kernels {
  const char* name;

  // Bytes of a quantised row of so many groups.
  int64_t (*row_bytes)(int64_t groups);

  // x [width] -> q [row_bytes] and the scale of q; q is meant for `linear` of the same variant.
  float (*quantise)(const float* x, int64_t width, uint8_t* q);

  // Blocks first..last of the outputs of q [rows, row_bytes], written to out [rows, stride] from column 0 on.
  void (*linear)(const Linear& layer, const uint8_t* q, const float* scales, int64_t rows, int64_t first, int64_t last,
                 Epilogue epilogue, float* out, int64_t stride);

  // The outputs `places` [count] of one row q, of a layer whose weight is in rows: written to out [count].
  void (*select)(const Linear& layer, const uint8_t* q, float scale, const int32_t* places, int64_t count, float* out);

  // Layer normalisation of x [width]; `out` may be x.
  void (*normalise)(const float* x, const float* weight, const float* bias, float epsilon, int64_t width, float* out);

  // One position of a recurrent layer: after = forget * before + (1 - forget) * input with forget = sigmoid(gate); adds
  // its positive part to `out`. `before` is not `after`; all are [width].
  void (*recur)(const float* input, const float* gate, const float* before, int64_t width, float* after, float* out);

  // softmax(q k^T * scale) v of up to `kMostQueries` queries that have as many keys, which stand `stride` numbers apart;
  // leaves the weights in `weights`, those of each query in `room_for(length)` numbers.
  void (*attend)(const Query<float>* queries, int64_t count, int64_t length, int64_t stride, int64_t head_dim,
                 float scale, float* weights);

  // The same over keys and values that `shorten` has made.
  void (*attend_short)(const Query<BFloat16>* queries, int64_t count, int64_t length, int64_t stride, int64_t head_dim,
                       float scale, float* weights);

  // x [width] -> the nearest numbers of 16 bits, of two the even one. NaN stays.
  void (*shorten)(const float* x, int64_t width, BFloat16* out);

  // The place is searched if the largest is above `floor`.
  Summary (*summarise)(const float* logits, int64_t width, float floor);

  // Ranks a part of a row's logits, which begins at `start`, after all parts before it.
  void (*rank)(const float* logits, int64_t width, int64_t start, Ranking& best);

  // scores [width] = (logits - largest) / temperature, weights [width] = e^scores, and the best score of each
  // `kNeighbours`; returns the sum of the weights, each a `fixed_point` number.
  int64_t (*weigh)(const float* logits, int64_t width, float largest, float temperature, float* scores, float* weights,
                   float* best);

  // `sample` of a row without top-k and top-p.
  int64_t (*draw)(const float* logits, int64_t width, int64_t best, const Sampling& options);
};

// The variants that this processor can run, the best first.
std::vector<const Kernels*> variants();

// The one in use: the best one, unless another was chosen.
const Kernels& kernels();

// For tests; false if this processor cannot run it.
bool choose(const std::string& name);

}  // namespace dragoman
