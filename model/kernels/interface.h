// The structs of the library's C interface, which interface.cpp documents; model/kernels/library.py has each once more.

#pragma once

#include <cstdint>

#include "kv_buffer.h"

extern "C" {

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
}
