// A whole encoder, and whole decode steps, in int8: documented and called by model/cpp_transformer.py.

#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "beams.h"
#include "compute.h"
#include "interface.h"
#include "kv_buffer.h"
#include "sampling.h"

namespace dragoman {

struct Norm {
  const float *weight, *bias;
};

// The input of a stack: embeddings of tokens and of positions, so many of each; the norm is that of embeddings, if the
// model has one.
struct Input {
  const float *embeddings, *places;
  int64_t tokens, positions;
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

class Int8Transformer {
 public:
  Int8Transformer(const DragomanShape& shape, const std::vector<DragomanWeight>& weights,
                  const DragomanBuffers& buffers);

  // ids, positions [tokens]; offsets [sources + 1]; slots [sources]. With a shortlist, `allowed` [words] has the words
  // that each translation can have, [sources, vocab]; else it is empty.
  void encode(const int64_t* ids, const int64_t* positions, int64_t tokens, const int64_t* offsets, const int64_t* slots,
              int64_t sources, const bool* allowed, int64_t words);

  // A block of steps: one, and up to `steps - 1` more; none starts that would end more than `seconds` after the block's
  // beginning. Writes the ids and their log-probabilities, the number of them that each plain row has got, and of the
  // last step, for the rows that the batch names: logits; alignment, the weights over their sources, the mean of the
  // heads of the layer that the shape calls `alignment_layer`; self_attention, the weights over their own slots, the
  // mean of the heads of each layer. For each of `beams`, a `Beam` each, with its rows' `totals`: the best extensions,
  // their rows, tokens, log-probabilities and totals, twice the largest size of them. Returns the number of steps.
  // In a further step each plain row, the last ones, reads its token, unless it has ended, and a beam's rows are its
  // best extensions. The end of a hypothesis ends the block, as does the end of the last plain row without beams.
  int64_t decode(const DragomanBatch& call, const DragomanScores& scores);

 private:
  using Numbers = std::vector<int64_t>;
  // The rows of a step, and what is asked of it.
  struct Batch {
    const DragomanBatch& call;
    Numbers tokens, positions, slots, source_slots, source_lengths;
    std::vector<float> totals;
    Numbers logit_rows, alignment_rows, self_attention_rows;
    std::vector<Beam> beams;
    Numbers places;  // the number among the call's plain rows of each that has not ended
  };
  struct Scores {
    Numbers best;
    std::vector<float> logprobs;
    std::vector<BestExtensions> extensions;  // of each beam
    const DragomanScores& wanted;
  };
  std::vector<Beam> beams_of(const DragomanBatch& call) const;
  // Two ways of a decoder layer to see the positions before a row's own, chosen once: each reads the layer's `own`
  // projection in `wide_`, writes the target's buffers and adds its result to the states.
  using SeeOwn = void (Int8Transformer::*)(int64_t layer, const Batch& batch, const int64_t* seen, const Scores& scores);
  void attend_to_own(int64_t layer, const Batch& batch, const int64_t* seen, const Scores& scores);
  void recur(int64_t layer, const Batch& batch, const int64_t* seen, const Scores& scores);
  void step(const Batch& batch, Scores& scores);
  // Checks the plain rows and returns their numbers.
  Numbers places_of(const Batch& batch) const;
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
    float* kept;                     // [rows of `logit_rows`, vocab]
    RowRankings rankings;
  };
  // Two ways to compute logits, chosen once: of the whole vocabulary, or of each source's words alone, where all other
  // logits are minus infinity.
  using Score = void (Int8Transformer::*)(const Batch& batch, StepLogits& logits);
  void score_all(const Batch& batch, StepLogits& logits);
  void score_words(const Batch& batch, StepLogits& logits);
  void keep_words(const bool* allowed, int64_t words, const int64_t* slots, int64_t sources);
  // Prepares the next step, without the plain rows that have ended; `counts` are their numbers of tokens. Returns false
  // where a hypothesis has ended, a beam's rows become more or fewer, or no row is left.
  bool advance(Batch& batch, Scores& scores, const int64_t* counts);

  // What the constructor takes its weights from.
  using Weights = std::unordered_map<std::string, DragomanWeight>;
  // Zeroed memory for as long as this lives.
  template <typename Number>
  Number* keep(int64_t count);
  // Packed, or in rows as `Kernels::select` reads it.
  Linear linear(const Weights& weights, const std::string& name, bool packed = true);
  Linear outer(const Weights& weights, const std::string& name);

  // Rows that a thread takes to itself.
  struct Rows {
    int64_t begin, end;
  };
  Rows all() const { return {0, rows_}; }
  void embed(const Input& input, const int64_t* ids, const int64_t* positions);
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
  AttentionView view_of(const Buffer& keys, const Buffer& values, int64_t layer, int64_t stride,
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
  void project(const Batch& batch, Scores& scores);

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::vector<std::unique_ptr<void, Free>> packed_;  // the memory that each `Linear` points into
  // Keys and values in bfloat16; or recurrent states in one head, in float32, which are those of position p at p modulo
  // the positions.
  std::vector<Buffer> target_;
  Buffer source_keys_, source_values_;
  int64_t d_model_, heads_, head_dim_, widest_, alignment_layer_, target_slots_, target_positions_;
  bool pre_norm_;
  SeeOwn see_own_;
  Score score_;
  Epilogue activation_;
  float attention_scale_, embedding_scale_, norm_epsilon_;
  Input source_input_, target_input_;
  Norm encoder_norm_, decoder_norm_;
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
