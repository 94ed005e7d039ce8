// The library's C interface: model/kernels/library.py calls it, and has each struct once more, field by field.
//
// Arrays are contiguous and stay the caller's. Each function returns -1 where it fails; `dragoman_error` has the reason.
// `threads` is the number that the process has for one call (`set_threads`).

#pragma once

#include <cstdint>

#include "kv_buffer.h"
#include "parts.h"

extern "C" {

// The reason of this thread's last failure.
const char* dragoman_error();

// The names of the variants that this processor can run, the best first, a space behind each.
const char* dragoman_variants();
int64_t dragoman_choose_variant(const char* name);

int64_t dragoman_lend_threads(const int64_t* idle_since, int64_t engines, int64_t own, int64_t threads);
int64_t dragoman_usable_threads(int64_t threads);

// The function GOMP_parallel of PyTorch's OpenMP library, for the operators below.
void dragoman_use_openmp(dragoman::Parallel parallel);

// query [rows, heads, head_dim]; keys, values [slots, heads, positions, head_dim]; slot_of, lengths [rows] -> out as query
int64_t dragoman_attend_slots(const float* query, const float* keys, const float* values, const int64_t* slot_of,
                              const int64_t* lengths, int64_t rows, int64_t slots, int64_t heads, int64_t positions,
                              int64_t head_dim, float* out, int64_t threads);

// query, keys, values [tokens, heads, head_dim]: sequence s is tokens offsets[s]..offsets[s + 1], offsets [sequences + 1]
int64_t dragoman_attend_packed(const float* query, const float* keys, const float* values, const int64_t* offsets,
                               int64_t tokens, int64_t sequences, int64_t heads, int64_t head_dim, float* out,
                               int64_t threads);

// logits [rows, vocab], totals [rows], sizes [beams] of the beams that stand together -> parents (rows within the beam),
// tokens, log-probabilities, sums [beams, count]
int64_t dragoman_best_extensions(const float* logits, const float* totals, const int64_t* sizes, int64_t rows,
                                 int64_t vocab, int64_t beams, int64_t count, int64_t* parents, int64_t* tokens,
                                 float* logprobs, float* sums, int64_t threads);

// logits [rows, vocab]; how each row is sampled, [rows] each -> tokens, log-probabilities [rows]
int64_t dragoman_sample(const float* logits, const float* temperatures, const int64_t* top_ks, const float* top_ps,
                        const int64_t* noise, int64_t rows, int64_t vocab, int64_t* tokens, float* logprobs,
                        int64_t threads);

// copies [count, 3]: (from slot, to slot, positions), one after the other
int64_t dragoman_copy_slots(const dragoman::Buffer* buffer, const int64_t* copies, int64_t count);

// Numbers and truth values of a transformer.
struct DragomanShape {
  int64_t d_model, num_heads, ffn_dim, encoder_layers, decoder_layers, alignment_layer, slots, target_positions;
  int64_t pre_norm, recurrent, scale_embedding, shortlist, activation;  // `Epilogue`
  double norm_epsilon;
};

// A weight: [rows, columns] of int8 numbers, or of float32. A vector has one row.
struct DragomanWeight {
  const char* name;
  const void* data;
  int64_t rows, columns, bytes;
};

// Buffers of the source's keys and values, and of the target's, in bfloat16, or of its states, in float32, as `target`
// alone.
struct DragomanBuffers {
  dragoman::Buffer source_keys, source_values, target, target_values;
};

// A decode step's rows, and what is wanted of them: `Queries`, `Outputs`, `Beams` and `PlainRows` of Python. `sampled` is
// 0 where no plain row is, else `plain`.
struct DragomanBatch {
  int64_t rows;
  const int64_t *tokens, *positions, *slots, *source_slots, *source_lengths;
  int64_t logits, alignment, self_attention;
  const int64_t *logit_rows, *alignment_rows, *self_attention_rows;
  int64_t beams;
  const int64_t* beam_rows;
  const float* totals;
  int64_t plain, sampled;
  const int64_t* rooms;
  const float* temperatures;
  const int64_t* top_ks;
  const float* top_ps;
  const int64_t* seeds;
  int64_t steps, eos_id;
  double seconds;
};

// best, logprobs [steps, rows] and counts [plain], all zero; logits [rows, vocab], alignment [rows, alignment_width] and
// self_attention [rows, layers, self_attention_width] of the batch's rows for them; parents, tokens, extension_logprobs
// and sums [steps, beams, extensions].
struct DragomanScores {
  int64_t* best;
  float* logprobs;
  int64_t* counts;
  float *logits, *alignment, *self_attention;
  int64_t alignment_width, self_attention_width, extensions;
  int64_t *parents, *tokens;
  float *extension_logprobs, *sums;
};

// A transformer, which keeps the addresses of all weights that are not int8, and of the buffers; nullptr where it fails.
void* dragoman_transformer_new(const DragomanShape* shape, const DragomanWeight* weights, int64_t count,
                               const DragomanBuffers* buffers);
void dragoman_transformer_delete(void* transformer);

// ids, positions [tokens]; offsets [sources + 1]; slots [sources]; `words` truth values, [sources, vocab] with a shortlist.
int64_t dragoman_transformer_encode(void* transformer, const int64_t* ids, const int64_t* positions, int64_t tokens,
                                    const int64_t* offsets, const int64_t* slots, int64_t sources, const bool* allowed,
                                    int64_t words, int64_t threads);

// Returns the number of steps that were run.
int64_t dragoman_transformer_decode(void* transformer, const DragomanBatch* batch, const DragomanScores* scores,
                                    int64_t threads);
}
