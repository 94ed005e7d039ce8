// A whole encoder, and whole decode steps, in int8: documented and called by model/cpp_transformer.py.

#pragma once

#include <torch/custom_class.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "beams.h"
#include "compute.h"
#include "sampling.h"

namespace dragoman {

struct Norm {
  const float *weight, *bias;
};

// The input of a stack; the norm is that of embeddings, if the model has one.
struct Input {
  at::Tensor tokens, table;
  Norm norm;
};

struct EncoderWeights {
  Linear qkv, output, inner, outer;
  Norm attention_norm, feed_forward_norm;
};

// `own` projects the states for what sees earlier positions: queries, keys and values, or the inputs and gates of a
// recurrent layer, which has no output projection.
struct DecoderWeights {
  Linear own, output, cross_query, cross_output, inner, outer;
  Norm own_norm, cross_norm, feed_forward_norm;
};

class Int8Transformer : public torch::CustomClassHolder {
 public:
  using Numbers = c10::Dict<std::string, int64_t>;
  using Tensors = c10::Dict<std::string, at::Tensor>;

  Int8Transformer(Numbers shape, Tensors weights, Tensors buffers);

  // ids, positions [tokens]; offsets [sources + 1]; slots [sources]. With a shortlist, `allowed` [sources, vocab] has the
  // words that each translation can have; else it is empty.
  void encode(const at::Tensor& ids, const at::Tensor& positions, const at::Tensor& offsets, const at::Tensor& slots,
              const at::Tensor& allowed);

  // A block of steps: one, and up to `steps - 1` more; none starts that would end more than `seconds` after the block's
  // beginning. tokens, positions, slots, source_slots, source_lengths [rows] -> the ids and their
  // log-probabilities [steps, rows], the number of them that each plain row has got [plain rows], and of the last step,
  // for the rows of `outputs`: logits [len, vocab]; alignment, the weights over their sources [len, longest source], the
  // mean of the heads of the layer that `shape` calls `alignment_layer`; self_attention, the weights over their own slots
  // [len, layers, longest], the mean of the heads of each layer. For each of `beams` [beams, 3], a `Beam` each, with its
  // rows' `totals` [rows]: the best extensions, their rows and tokens [2, steps, beams, n] and their log-probabilities
  // and totals, n being twice the largest size.
  // In a further step each plain row, the last ones, reads its token, unless it has ended, and a beam's rows are its
  // best extensions. The end of a hypothesis ends the block, as does the end of the last plain row without beams.
  struct Outputs {
    std::vector<int64_t> logits, alignment, self_attention;
  };
  // As `PlainRows` of model/decode_step.py.
  struct Plain {
    at::Tensor rooms, temperatures, top_ks, top_ps, seeds;
  };
  struct Batch {
    at::Tensor tokens, positions, slots, source_slots, source_lengths;
    Outputs outputs;
    at::Tensor beams, totals;
    Plain plain;
    int64_t steps = 1, eos_id = -1;
    double seconds = 0;
    std::vector<int64_t> places = {};  // the number in `plain` of each plain row that has not ended
  };
  using Result =
      std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
  Result decode(const Batch& batch);

 private:
  struct Scores {
    at::Tensor best, logprobs, logits, alignment, self_attention;
    std::vector<BestExtensions> extensions;  // of each beam
  };
  std::vector<Beam> beams_of(const Batch& batch) const;
  // Two ways of a decoder layer to see the positions before a row's own, chosen once: each reads the layer's `own`
  // projection in `wide_`, writes the target's buffers and adds its result to the states.
  using SeeOwn = void (Int8Transformer::*)(int64_t layer, const Batch& batch, const int64_t* seen, Scores& scores);
  void attend_to_own(int64_t layer, const Batch& batch, const int64_t* seen, Scores& scores);
  void recur(int64_t layer, const Batch& batch, const int64_t* seen, Scores& scores);
  Scores step(const Batch& batch, const std::vector<Beam>& beams);
  // Checks the plain rows and returns their numbers.
  std::vector<int64_t> places_of(const Batch& batch, const std::vector<Beam>& beams) const;
  // A row that samples, and how.
  struct Draw {
    int64_t row;
    Sampling options;
  };
  std::vector<Draw> draws_of(const Batch& batch) const;
  // The results of scanning a step's logits, one part of the vocabulary after the other.
  struct StepLogits {
    int64_t parts;
    std::vector<Draw> draws;
    std::vector<Summary> summaries;  // [parts, rows]
    std::unique_ptr<float[]> drawn;  // [draws, vocab]
    float* kept;                     // [rows of `outputs.logits`, vocab]
    RowRankings rankings;
  };
  // Two ways to compute logits, chosen once: of the whole vocabulary, or of each source's words alone, where all other
  // logits are minus infinity.
  using Score = void (Int8Transformer::*)(const Batch& batch, const std::vector<Beam>& beams, StepLogits& logits);
  void score_all(const Batch& batch, const std::vector<Beam>& beams, StepLogits& logits);
  void score_words(const Batch& batch, const std::vector<Beam>& beams, StepLogits& logits);
  void keep_words(const at::Tensor& allowed, const at::Tensor& slots);
  // Prepares the next step, without the plain rows that have ended; `counts` are their numbers of tokens. Returns false
  // where a hypothesis has ended, a beam's rows become more or fewer, or no row is left.
  bool advance(Batch& batch, const std::vector<Beam>& beams, const std::vector<BestExtensions>& extensions,
               const at::Tensor& best, const int64_t* counts);

  at::Tensor tensor(const std::string& name) const;
  // Packed, or in rows as `Kernels::select` reads it.
  Linear linear(const std::string& name, bool packed = true);
  Linear outer(const std::string& name);
  Norm norm(const std::string& name) const;
  Input input(const std::string& name) const;

  // Rows that a thread takes to itself.
  struct Rows {
    int64_t begin, end;
  };
  Rows all() const { return {0, rows_}; }
  void embed(const Input& input, const at::Tensor& ids, const at::Tensor& positions);
  void reserve(int64_t rows);
  // Quantise rows of `width` floats into `q_`.
  void quantise(const float* x, int64_t width);
  // A linear layer over the rows that were quantised last.
  void apply(const Linear& layer, Epilogue epilogue, float* out);
  // The states as a sublayer reads them: normalised in a pre-norm model, else as they are.
  const float* pre_norm(const Norm& norm, Rows rows);
  // Normalises the states after a sublayer's result was added, in a post-norm model.
  void post_norm(const Norm& norm, Rows rows);
  void normalise(const Norm& norm, float* out, Rows rows);
  // A linear layer over some rows of x [rows_, layer.in]: its results in out [rows_, layer.out]. By this thread alone,
  // unless threads share the layers; then over all rows.
  void multiply(const Linear& layer, const float* x, Epilogue epilogue, float* out, Rows rows);
  // The positions that rows attend to in one layer of a buffer: row r to the first `lengths[r]` of the `positions` of
  // slot `slots[r]`. The queries are in `wide_`, `stride` floats apart.
  struct AttentionView {
    const BFloat16 *keys, *values;
    int64_t positions, stride;
    const int64_t *slots, *lengths;
  };
  AttentionView view_of(const at::Tensor& keys, const at::Tensor& values, int64_t layer, int64_t stride,
                        const int64_t* slots, const int64_t* lengths) const;
  // Where the keys and values of a row and head begin.
  int64_t start_of(const AttentionView& view, int64_t row, int64_t head) const;
  // Calls keys and values into the core's cache.
  void prefetch(const AttentionView& view, int64_t row, int64_t head) const;
  Query<BFloat16> query_of(const AttentionView& view, int64_t row, int64_t head, float* out) const;
  // Every row and head; leaves the results in `mixed_`.
  void attend(const AttentionView& view);
  // Computes the weights of some rows again and adds the mean of their heads to the zeros at `to`, where rows are `stride`
  // floats apart.
  void accumulate_attention(const AttentionView& view, const std::vector<int64_t>& rows, float* to,
                            int64_t stride) const;
  void project(const Batch& batch, const std::vector<Beam>& beams, Scores& scores);

  Tensors weights_;
  std::vector<at::Tensor> packed_;  // the memory that each `Linear` points into
  // [layers, slots, heads, positions, head_dim]; of targets the keys and the values, in bfloat16, or recurrent states in
  // one head, in float32, which are those of position p at p modulo the positions.
  std::vector<at::Tensor> target_;
  at::Tensor source_keys_, source_values_;
  int64_t d_model_, heads_, head_dim_, widest_, alignment_layer_, target_slots_, target_positions_;
  bool pre_norm_;
  SeeOwn see_own_;
  Score score_;
  Epilogue activation_;
  float attention_scale_, embedding_scale_, norm_epsilon_;
  Input source_input_, target_input_;
  std::vector<EncoderWeights> encoder_;
  std::vector<DecoderWeights> decoder_;
  std::vector<Linear> source_kv_;
  Linear projection_;
  std::vector<std::vector<int32_t>> words_;  // of each source slot, in ascending order; none without a shortlist

  // State of the running call.
  int64_t rows_ = 0;
  bool shares_layers_ = false;  // or each thread has rows of its own
  std::vector<float> states_, normed_, qkv_, wide_, mixed_, scales_;
  std::vector<uint8_t> q_;
  int64_t row_bytes_ = 0;
};

}  // namespace dragoman
