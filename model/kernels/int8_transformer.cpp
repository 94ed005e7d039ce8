// See int8_transformer.h. int8_weights.cpp constructs it, int8_steps.cpp runs a block of steps, int8_output.cpp has the
// output projection. A row is a token: of any source in `encode`, of any hypothesis in `decode`. Rows share only weights.

#include "int8_transformer.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "attention.h"
#include "parts.h"

namespace dragoman {
namespace {

// Below this many multiplications a thread is not worth waking.
constexpr int64_t kFewestProducts = 1 << 18;
// With fewer rows of its own, a thread would read the weights for longer than it multiplies.
constexpr int64_t kFewestRows = 8;

void check_range(const at::Tensor& tensor, int64_t rows, int64_t end, const char* name) {
  TORCH_CHECK(tensor.dtype() == at::kLong && tensor.is_contiguous() && tensor.numel() == rows,
              "int8: ", name, " must be ", rows, " contiguous int64 numbers");
  const int64_t* numbers = tensor.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows; ++i)
    TORCH_CHECK(0 <= numbers[i] && numbers[i] < end, "int8: ", name, "[", i, "] is ", numbers[i], ", the end is ", end);
}

const BFloat16* short_numbers(const at::Tensor& buffer) {
  return static_cast<const BFloat16*>(buffer.const_data_ptr());
}

BFloat16* mutable_short_numbers(const at::Tensor& buffer) { return static_cast<BFloat16*>(buffer.mutable_data_ptr()); }

void check_rows(const std::vector<int64_t>& some, int64_t rows) {
  for (const int64_t row : some) TORCH_CHECK(0 <= row && row < rows, "int8: there is no row ", row);
}

int64_t longest(const std::vector<int64_t>& rows, const int64_t* lengths) {
  int64_t most = 0;
  for (const int64_t row : rows) most = std::max(most, lengths[row]);
  return most;
}

}  // namespace

void Int8Transformer::reserve(int64_t rows) {
  TORCH_CHECK(rows > 0, "int8: there are no rows");
  rows_ = rows;
  states_.resize(rows * d_model_);
  normed_.resize(rows * d_model_);
  mixed_.resize(rows * d_model_);
  wide_.resize(rows * widest_);
  row_bytes_ = kernels().row_bytes(groups_for(widest_));
  q_.resize(rows * row_bytes_);
  scales_.resize(rows);
}

void Int8Transformer::embed(const Input& input, const at::Tensor& ids, const at::Tensor& positions) {
  check_range(ids, rows_, input.tokens.size(0), "ids");
  check_range(positions, rows_, input.table.size(0), "positions");
  for (int64_t r = 0; r < rows_; ++r) {
    const float* token = input.tokens.const_data_ptr<float>() + ids.const_data_ptr<int64_t>()[r] * d_model_;
    const float* place = input.table.const_data_ptr<float>() + positions.const_data_ptr<int64_t>()[r] * d_model_;
    for (int64_t i = 0; i < d_model_; ++i) states_[r * d_model_ + i] = token[i] * embedding_scale_ + place[i];
  }
  if (input.norm.weight) normalise(input.norm, states_.data(), all());
}

void Int8Transformer::quantise(const float* x, int64_t width) {
  const int64_t stride = kernels().row_bytes(groups_for(width));
  in_parts(rows_, std::max<int64_t>(1, kFewestProducts / (8 * width)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) scales_[r] = kernels().quantise(x + r * width, width, q_.data() + r * stride);
  });
}

void Int8Transformer::apply(const Linear& layer, Epilogue epilogue, float* out) {
  const int64_t grain = std::max<int64_t>(1, kFewestProducts / (rows_ * layer.in * kBlock));
  in_parts(layer.blocks, grain, [&](int64_t begin, int64_t end) {
    kernels().linear(layer, q_.data(), scales_.data(), rows_, begin, end, epilogue, out + begin * kBlock, layer.out);
  });
}

void Int8Transformer::normalise(const Norm& norm, float* out, Rows rows) {
  for (int64_t r = rows.begin; r < rows.end; ++r)
    kernels().normalise(states_.data() + r * d_model_, norm.weight, norm.bias, norm_epsilon_, d_model_,
                        out + r * d_model_);
}

const float* Int8Transformer::pre_norm(const Norm& norm, Rows rows) {
  if (!pre_norm_) return states_.data();
  normalise(norm, normed_.data(), rows);
  return normed_.data();
}

void Int8Transformer::post_norm(const Norm& norm, Rows rows) {
  if (!pre_norm_) normalise(norm, states_.data(), rows);
}

void Int8Transformer::multiply(const Linear& layer, const float* x, Epilogue epilogue, float* out, Rows rows) {
  if (shares_layers_) {
    quantise(x, layer.in);
    return apply(layer, epilogue, out);
  }
  // Each row has room for the widest of the layers, which other threads may be at.
  uint8_t* q = q_.data() + rows.begin * row_bytes_;
  const int64_t bytes = kernels().row_bytes(layer.groups);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    scales_[r] = kernels().quantise(x + r * layer.in, layer.in, q + (r - rows.begin) * bytes);
  kernels().linear(layer, q, scales_.data() + rows.begin, rows.end - rows.begin, 0, layer.blocks, epilogue,
                   out + rows.begin * layer.out, layer.out);
}

void Int8Transformer::encode(const at::Tensor& ids, const at::Tensor& positions, const at::Tensor& offsets,
                             const at::Tensor& slots, const at::Tensor& allowed) {
  const int64_t sources = slots.numel(), width = 3 * d_model_;
  reserve(ids.numel());
  check_range(slots, sources, source_keys_.size(1), "slots");
  check_range(offsets, sources + 1, rows_ + 1, "offsets");
  const int64_t* offset = offsets.const_data_ptr<int64_t>();
  TORCH_CHECK(offset[0] == 0 && offset[sources] == rows_, "int8: offsets do not cover the ", rows_, " tokens");
  std::vector<int64_t> source_of(rows_);
  for (int64_t s = 0; s < sources; ++s) {
    TORCH_CHECK(offset[s] < offset[s + 1] && offset[s + 1] - offset[s] <= source_keys_.size(3), "int8: source ", s,
                " has ", offset[s + 1] - offset[s], " tokens");
    std::fill(source_of.begin() + offset[s], source_of.begin() + offset[s + 1], s);
  }
  keep_words(allowed, slots);
  embed(source_input_, ids, positions);
  qkv_.resize(rows_ * width);
  shares_layers_ = rows_ < kFewestRows * usable_threads();
  // A thread takes some rows through as much of a layer as needs no other rows, so that they stay in its core's cache.
  const auto by_rows = [&](const auto& body) {
    if (shares_layers_) return body(all());
    in_parts(rows_, kFewestRows, [&](int64_t begin, int64_t end) { body(Rows{begin, end}); });
  };
  for (const EncoderWeights& layer : encoder_) {
    by_rows([&](Rows rows) {
      multiply(layer.qkv, pre_norm(layer.attention_norm, rows), Epilogue::store, qkv_.data(), rows);
    });
    by_rows([&](Rows rows) {
      Attention<float> attention(source_keys_.size(3), width, head_dim_, attention_scale_);
      // A head at a time over a source's queries: its keys and values stay in the cache of the core.
      for (int64_t head = 0; head < d_model_; head += head_dim_)
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          const int64_t first = offset[source_of[row]], length = offset[source_of[row] + 1] - first;
          const float* k = qkv_.data() + first * width + d_model_ + head;
          attention.add({qkv_.data() + row * width + head, k, k + d_model_, mixed_.data() + row * d_model_ + head}, length);
        }
      attention.finish();
      multiply(layer.output, mixed_.data(), Epilogue::add, states_.data(), rows);
      post_norm(layer.attention_norm, rows);
      multiply(layer.inner, pre_norm(layer.feed_forward_norm, rows), activation_, wide_.data(), rows);
      multiply(layer.outer, wide_.data(), Epilogue::add, states_.data(), rows);
      post_norm(layer.feed_forward_norm, rows);
    });
  }
  const int64_t* slot = slots.const_data_ptr<int64_t>();
  by_rows([&](Rows rows) {
    if (pre_norm_) normalise(norm("encoder_norm"), states_.data(), rows);
    for (size_t l = 0; l < source_kv_.size(); ++l) {
      multiply(source_kv_[l], states_.data(), Epilogue::store, wide_.data(), rows);
      for (int64_t row = rows.begin; row < rows.end; ++row)
        for (int64_t head = 0; head < heads_; ++head) {
          const int64_t to = ((l * source_keys_.size(1) + slot[source_of[row]]) * heads_ + head) * source_keys_.size(3);
          const int64_t place = (to + row - offset[source_of[row]]) * head_dim_;
          const float* key = wide_.data() + row * 2 * d_model_ + head * head_dim_;
          kernels().shorten(key, head_dim_, mutable_short_numbers(source_keys_) + place);
          kernels().shorten(key + d_model_, head_dim_, mutable_short_numbers(source_values_) + place);
        }
    }
  });
}

Int8Transformer::AttentionView Int8Transformer::view_of(const at::Tensor& keys, const at::Tensor& values, int64_t layer,
                                                        int64_t stride, const int64_t* slots,
                                                        const int64_t* lengths) const {
  const int64_t start = layer * keys.stride(0);
  return {short_numbers(keys) + start, short_numbers(values) + start, keys.size(3), stride, slots, lengths};
}

int64_t Int8Transformer::start_of(const AttentionView& view, int64_t row, int64_t head) const {
  return (view.slots[row] * heads_ + head) * view.positions * head_dim_;
}

void Int8Transformer::prefetch(const AttentionView& view, int64_t row, int64_t head) const {
  constexpr int64_t kLine = 64 / sizeof(BFloat16);
  const int64_t start = start_of(view, row, head), size = view.lengths[row] * head_dim_;
  for (const BFloat16* from : {view.keys + start, view.values + start})
    for (int64_t i = 0; i < size; i += kLine) __builtin_prefetch(from + i);
}

Query<BFloat16> Int8Transformer::query_of(const AttentionView& view, int64_t row, int64_t head, float* out) const {
  const int64_t start = start_of(view, row, head);
  return {wide_.data() + row * view.stride + head * head_dim_, view.keys + start, view.values + start, out};
}

void Int8Transformer::attend(const AttentionView& view) {
  in_parts(rows_ * heads_, 16, [&](int64_t begin, int64_t end) {
    Attention<BFloat16> attention(view.positions, head_dim_, head_dim_, attention_scale_);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / heads_, head = i % heads_;
      // Slots lie far apart, where no processor looks ahead by itself.
      prefetch(view, row, head);
      attention.add(query_of(view, row, head, mixed_.data() + i * head_dim_), view.lengths[row]);
    }
    attention.finish();
  });
}

void Int8Transformer::accumulate_attention(const AttentionView& view, const std::vector<int64_t>& rows, float* to,
                                           int64_t stride) const {
  if (rows.empty()) return;
  std::vector<float> weights(room_for(view.positions)), ignored(head_dim_);
  for (const int64_t row : rows) {
    for (int64_t head = 0; head < heads_; ++head) {
      const Query<BFloat16> query = query_of(view, row, head, ignored.data());
      kernels().attend_short(&query, 1, view.lengths[row], head_dim_, head_dim_, attention_scale_, weights.data());
      for (int64_t i = 0; i < view.lengths[row]; ++i) to[i] += weights[i] / heads_;
    }
    to += stride;
  }
}

void Int8Transformer::attend_to_own(int64_t layer, const Batch& batch, const int64_t* seen, Scores& scores) {
  at::Tensor &keys = target_[0], &values = target_[1];
  const int64_t slots = keys.size(1), places = keys.size(3);
  const int64_t *position = batch.positions.const_data_ptr<int64_t>(), *slot = batch.slots.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < rows_; ++row)
    for (int64_t head = 0; head < heads_; ++head) {
      const int64_t to = ((layer * slots + slot[row]) * heads_ + head) * places + position[row];
      const float* key = wide_.data() + row * 3 * d_model_ + d_model_ + head * head_dim_;
      kernels().shorten(key, head_dim_, mutable_short_numbers(keys) + to * head_dim_);
      kernels().shorten(key + d_model_, head_dim_, mutable_short_numbers(values) + to * head_dim_);
    }
  const AttentionView own = view_of(keys, values, layer, 3 * d_model_, slot, seen);
  attend(own);
  const int64_t width = scores.self_attention.size(2);
  accumulate_attention(own, batch.outputs.self_attention,
                       scores.self_attention.mutable_data_ptr<float>() + layer * width,
                       scores.self_attention.size(1) * width);
  quantise(mixed_.data(), d_model_);
  apply(decoder_[layer].output, Epilogue::add, states_.data());
}

void Int8Transformer::recur(int64_t layer, const Batch& batch, const int64_t*, Scores&) {
  const at::Tensor& states = target_[0];
  const int64_t places = states.size(3);
  const int64_t *position = batch.positions.const_data_ptr<int64_t>(), *slot = batch.slots.const_data_ptr<int64_t>();
  float* kept = states.mutable_data_ptr<float>() + layer * states.stride(0);
  const std::vector<float> start(d_model_);
  const auto state = [&](int64_t row, int64_t place) { return kept + (slot[row] * places + place % places) * d_model_; };
  // Rows of the same slot follow one another, each from the state that the row before it has left.
  for (int64_t row = 0; row < rows_; ++row) {
    const float *input = wide_.data() + row * 2 * d_model_, *gate = input + d_model_;
    const float* before = position[row] ? state(row, position[row] - 1) : start.data();
    kernels().recur(input, gate, before, d_model_, state(row, position[row]), states_.data() + row * d_model_);
  }
}

Int8Transformer::Scores Int8Transformer::step(const Batch& batch, const std::vector<Beam>& beams) {
  reserve(batch.tokens.numel());
  check_range(batch.positions, rows_, target_positions_, "positions");
  check_range(batch.slots, rows_, target_slots_, "slots");
  check_range(batch.source_slots, rows_, source_keys_.size(1), "source_slots");
  check_range(batch.source_lengths, rows_, source_keys_.size(3) + 1, "source_lengths");
  for (const int64_t* length = batch.source_lengths.const_data_ptr<int64_t>(), *end = length + rows_; length < end; ++length)
    TORCH_CHECK(*length > 0, "int8: a source is empty");
  for (const auto* rows : {&batch.outputs.logits, &batch.outputs.alignment, &batch.outputs.self_attention}) check_rows(*rows, rows_);
  const int64_t* position = batch.positions.const_data_ptr<int64_t>();
  std::vector<int64_t> seen(position, position + rows_);
  for (int64_t& length : seen) ++length;  // a row attends up to its own position
  const int64_t* source_slot = batch.source_slots.const_data_ptr<int64_t>();
  const int64_t* source_length = batch.source_lengths.const_data_ptr<int64_t>();
  const int64_t layers = decoder_.size(), aligned = batch.outputs.alignment.size(), looking = batch.outputs.self_attention.size();
  const int64_t source_width = longest(batch.outputs.alignment, source_length);
  const int64_t own_width = longest(batch.outputs.self_attention, seen.data());
  const int64_t own_layers = see_own_ == &Int8Transformer::attend_to_own ? layers : 0;
  Scores scores;
  scores.alignment = at::zeros({aligned, source_width});
  scores.self_attention = at::zeros({looking, own_layers, own_width});

  embed(target_input_, batch.tokens, batch.positions);
  for (int64_t l = 0; l < layers; ++l) {
    const DecoderWeights& layer = decoder_[l];
    quantise(pre_norm(layer.own_norm, all()), d_model_);
    apply(layer.own, Epilogue::store, wide_.data());
    (this->*see_own_)(l, batch, seen.data(), scores);
    post_norm(layer.own_norm, all());

    quantise(pre_norm(layer.cross_norm, all()), d_model_);
    apply(layer.cross_query, Epilogue::store, wide_.data());
    const AttentionView source = view_of(source_keys_, source_values_, l, d_model_, source_slot, source_length);
    attend(source);
    if (l == alignment_layer_)
      accumulate_attention(source, batch.outputs.alignment, scores.alignment.mutable_data_ptr<float>(), source_width);
    quantise(mixed_.data(), d_model_);
    apply(layer.cross_output, Epilogue::add, states_.data());
    post_norm(layer.cross_norm, all());

    quantise(pre_norm(layer.feed_forward_norm, all()), d_model_);
    apply(layer.inner, activation_, wide_.data());
    quantise(wide_.data(), layer.inner.out);
    apply(layer.outer, Epilogue::add, states_.data());
    post_norm(layer.feed_forward_norm, all());
  }
  if (pre_norm_) normalise(norm("decoder_norm"), states_.data(), all());
  project(batch, beams, scores);
  return scores;
}

}  // namespace dragoman
