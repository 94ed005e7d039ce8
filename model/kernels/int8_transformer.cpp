// See int8_transformer.h. int8_weights.cpp constructs it, int8_steps.cpp runs a block of steps, int8_output.cpp has the
// output projection. A row is a token: of any source in `encode`, of any hypothesis in `decode`. Rows share only weights.

#include "int8_transformer.h"

#include <algorithm>

#include "attention.h"
#include "checks.h"
#include "parts.h"

namespace dragoman {
namespace {

// Below this many multiplications a thread is not worth waking.
constexpr int64_t kFewestProducts = 1 << 18;
// With fewer rows of its own, a thread would read the weights for longer than it multiplies.
constexpr int64_t kFewestRows = 8;

void check_range(const int64_t* numbers, int64_t count, int64_t end, const char* name) {
  for (int64_t i = 0; i < count; ++i)
    require(0 <= numbers[i] && numbers[i] < end, "int8: ", name, "[", i, "] is ", numbers[i], ", the end is ", end);
}

void check_rows(const std::vector<int64_t>& some, int64_t rows) {
  for (const int64_t row : some) require(0 <= row && row < rows, "int8: there is no row ", row);
}

int64_t longest(const std::vector<int64_t>& rows, const std::vector<int64_t>& lengths) {
  int64_t most = 0;
  for (const int64_t row : rows) most = std::max(most, lengths[row]);
  return most;
}

}  // namespace

void Int8Transformer::reserve(int64_t rows) {
  require(rows > 0, "int8: there are no rows");
  rows_ = rows;
  states_.resize(rows * d_model_);
  normed_.resize(rows * d_model_);
  mixed_.resize(rows * d_model_);
  wide_.resize(rows * widest_);
  row_bytes_ = kernels().row_bytes(groups_for(widest_));
  q_.resize(rows * row_bytes_);
  scales_.resize(rows);
}

void Int8Transformer::embed(const Input& input, const int64_t* ids, const int64_t* positions) {
  check_range(ids, rows_, input.tokens, "ids");
  check_range(positions, rows_, input.positions, "positions");
  for (int64_t r = 0; r < rows_; ++r) {
    const float *token = input.embeddings + ids[r] * d_model_, *place = input.places + positions[r] * d_model_;
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

void Int8Transformer::encode(const int64_t* ids, const int64_t* positions, int64_t tokens, const int64_t* offset,
                             const int64_t* slot, int64_t sources, const bool* allowed, int64_t words) {
  const int64_t width = 3 * d_model_, places = source_keys_.positions;
  reserve(tokens);
  check_range(slot, sources, source_keys_.slots, "slots");
  check_range(offset, sources + 1, rows_ + 1, "offsets");
  require(offset[0] == 0 && offset[sources] == rows_, "int8: offsets do not cover the ", rows_, " tokens");
  std::vector<int64_t> source_of(rows_);
  for (int64_t s = 0; s < sources; ++s) {
    require(offset[s] < offset[s + 1] && offset[s + 1] - offset[s] <= places, "int8: source ", s, " has ",
            offset[s + 1] - offset[s], " tokens");
    std::fill(source_of.begin() + offset[s], source_of.begin() + offset[s + 1], s);
  }
  keep_words(allowed, words, slot, sources);
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
      Attention<float> attention(places, width, head_dim_, attention_scale_);
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
  by_rows([&](Rows rows) {
    if (pre_norm_) normalise(encoder_norm_, states_.data(), rows);
    for (size_t l = 0; l < source_kv_.size(); ++l) {
      multiply(source_kv_[l], states_.data(), Epilogue::store, wide_.data(), rows);
      for (int64_t row = rows.begin; row < rows.end; ++row)
        for (int64_t head = 0; head < heads_; ++head) {
          const int64_t to = ((l * source_keys_.slots + slot[source_of[row]]) * heads_ + head) * places;
          const int64_t place = (to + row - offset[source_of[row]]) * head_dim_;
          const float* key = wide_.data() + row * 2 * d_model_ + head * head_dim_;
          kernels().shorten(key, head_dim_, source_keys_.numbers<BFloat16>() + place);
          kernels().shorten(key + d_model_, head_dim_, source_values_.numbers<BFloat16>() + place);
        }
    }
  });
}

Int8Transformer::AttentionView Int8Transformer::view_of(const Buffer& keys, const Buffer& values, int64_t layer,
                                                        int64_t stride, const int64_t* slots,
                                                        const int64_t* lengths) const {
  const int64_t start = layer * keys.layer_size();
  return {keys.numbers<BFloat16>() + start, values.numbers<BFloat16>() + start, keys.positions, stride, slots, lengths};
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

void Int8Transformer::attend_to_own(int64_t layer, const Batch& batch, const int64_t* seen, const Scores& scores) {
  const Buffer &keys = target_[0], &values = target_[1];
  for (int64_t row = 0; row < rows_; ++row)
    for (int64_t head = 0; head < heads_; ++head) {
      const int64_t slot = (layer * keys.slots + batch.slots[row]) * heads_ + head;
      const int64_t to = (slot * keys.positions + batch.positions[row]) * head_dim_;
      const float* key = wide_.data() + row * 3 * d_model_ + d_model_ + head * head_dim_;
      kernels().shorten(key, head_dim_, keys.numbers<BFloat16>() + to);
      kernels().shorten(key + d_model_, head_dim_, values.numbers<BFloat16>() + to);
    }
  const AttentionView own = view_of(keys, values, layer, 3 * d_model_, batch.slots.data(), seen);
  attend(own);
  const int64_t width = scores.wanted.self_attention_width;
  accumulate_attention(own, batch.self_attention_rows, scores.wanted.self_attention + layer * width,
                       decoder_.size() * width);
  quantise(mixed_.data(), d_model_);
  apply(decoder_[layer].output, Epilogue::add, states_.data());
}

void Int8Transformer::recur(int64_t layer, const Batch& batch, const int64_t*, const Scores&) {
  const Buffer& states = target_[0];
  float* kept = states.numbers<float>() + layer * states.layer_size();
  const std::vector<float> start(d_model_);
  const auto state = [&](int64_t row, int64_t place) {
    return kept + (batch.slots[row] * states.positions + place % states.positions) * d_model_;
  };
  // Rows of the same slot follow one another, each from the state that the row before it has left.
  for (int64_t row = 0; row < rows_; ++row) {
    const float *input = wide_.data() + row * 2 * d_model_, *gate = input + d_model_;
    const int64_t position = batch.positions[row];
    const float* before = position ? state(row, position - 1) : start.data();
    kernels().recur(input, gate, before, d_model_, state(row, position), states_.data() + row * d_model_);
  }
}

void Int8Transformer::step(const Batch& batch, Scores& scores) {
  reserve(batch.tokens.size());
  check_range(batch.positions.data(), rows_, target_positions_, "positions");
  check_range(batch.slots.data(), rows_, target_slots_, "slots");
  check_range(batch.source_slots.data(), rows_, source_keys_.slots, "source_slots");
  check_range(batch.source_lengths.data(), rows_, source_keys_.positions + 1, "source_lengths");
  for (const int64_t length : batch.source_lengths) require(length > 0, "int8: a source is empty");
  for (const auto* rows : {&batch.logit_rows, &batch.alignment_rows, &batch.self_attention_rows})
    check_rows(*rows, rows_);
  std::vector<int64_t> seen = batch.positions;
  for (int64_t& length : seen) ++length;  // a row attends up to its own position
  const DragomanScores& wanted = scores.wanted;
  const int64_t own_layers = see_own_ == &Int8Transformer::attend_to_own ? decoder_.size() : 0;
  require(longest(batch.alignment_rows, batch.source_lengths) <= wanted.alignment_width &&
              longest(batch.self_attention_rows, seen) <= wanted.self_attention_width,
          "int8: the weights of attention have no room");
  std::fill_n(wanted.alignment, batch.alignment_rows.size() * wanted.alignment_width, 0.0f);
  std::fill_n(wanted.self_attention, batch.self_attention_rows.size() * own_layers * wanted.self_attention_width, 0.0f);

  embed(target_input_, batch.tokens.data(), batch.positions.data());
  for (int64_t l = 0; l < static_cast<int64_t>(decoder_.size()); ++l) {
    const DecoderWeights& layer = decoder_[l];
    quantise(pre_norm(layer.own_norm, all()), d_model_);
    apply(layer.own, Epilogue::store, wide_.data());
    (this->*see_own_)(l, batch, seen.data(), scores);
    post_norm(layer.own_norm, all());

    quantise(pre_norm(layer.cross_norm, all()), d_model_);
    apply(layer.cross_query, Epilogue::store, wide_.data());
    const AttentionView source = view_of(source_keys_, source_values_, l, d_model_, batch.source_slots.data(),
                                         batch.source_lengths.data());
    attend(source);
    if (l == alignment_layer_)
      accumulate_attention(source, batch.alignment_rows, wanted.alignment, wanted.alignment_width);
    quantise(mixed_.data(), d_model_);
    apply(layer.cross_output, Epilogue::add, states_.data());
    post_norm(layer.cross_norm, all());

    quantise(pre_norm(layer.feed_forward_norm, all()), d_model_);
    apply(layer.inner, activation_, wide_.data());
    quantise(wide_.data(), layer.inner.out);
    apply(layer.outer, Epilogue::add, states_.data());
    post_norm(layer.feed_forward_norm, all());
  }
  if (pre_norm_) normalise(decoder_norm_, states_.data(), all());
  project(batch, scores);
}

}  // namespace dragoman
