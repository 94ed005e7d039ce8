// The construction of `Int8Transformer`: it takes its weights by name and packs them.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "checks.h"
#include "int8_transformer.h"

namespace dragoman {
namespace {

using Weights = std::unordered_map<std::string, DragomanWeight>;

// A weight of so many columns, of numbers of so many bytes: int8 has one, float32 four.
const DragomanWeight& weight_of(const Weights& weights, const std::string& name, int64_t bytes, int64_t columns) {
  const auto found = weights.find(name);
  require(found != weights.end(), "int8: there is no ", name);
  require(found->second.bytes == bytes && found->second.columns == columns, "int8: ", name, " has ",
          found->second.columns, " columns of ", found->second.bytes, " bytes");
  return found->second;
}

const float* floats(const Weights& weights, const std::string& name, int64_t columns) {
  return static_cast<const float*>(weight_of(weights, name, sizeof(float), columns).data);
}

Norm norm(const Weights& weights, const std::string& name, int64_t width) {
  return {floats(weights, name + ".weight", width), floats(weights, name + ".bias", width)};
}

Input input(const Weights& weights, const std::string& name, int64_t width) {
  const DragomanWeight& embeddings = weight_of(weights, name + ".tokens", sizeof(float), width);
  const DragomanWeight& places = weight_of(weights, name + ".table", sizeof(float), width);
  return {static_cast<const float*>(embeddings.data), static_cast<const float*>(places.data), embeddings.rows,
          places.rows, weights.count(name + ".norm.weight") ? norm(weights, name + ".norm", width) : Norm{}};
}

Weights by_name(const std::vector<DragomanWeight>& weights) {
  Weights all;
  for (const DragomanWeight& each : weights) all.emplace(each.name, each);
  return all;
}

}  // namespace

Int8Transformer::Int8Transformer(const DragomanShape& shape, const std::vector<DragomanWeight>& weights,
                                 const DragomanBuffers& buffers)
    : source_keys_(buffers.source_keys),
      source_values_(buffers.source_values),
      d_model_(shape.d_model),
      heads_(shape.num_heads),
      head_dim_(d_model_ / heads_),
      widest_(std::max(3 * d_model_, shape.ffn_dim)),
      alignment_layer_(shape.alignment_layer),
      target_slots_(shape.slots),
      target_positions_(shape.target_positions),
      pre_norm_(shape.pre_norm != 0),
      see_own_(shape.recurrent ? &Int8Transformer::recur : &Int8Transformer::attend_to_own),
      score_(shape.shortlist ? &Int8Transformer::score_words : &Int8Transformer::score_all),
      activation_(static_cast<Epilogue>(shape.activation)),
      attention_scale_(1 / std::sqrt(static_cast<float>(head_dim_))),
      embedding_scale_(shape.scale_embedding ? std::sqrt(static_cast<float>(d_model_)) : 1.0f),
      norm_epsilon_(static_cast<float>(shape.norm_epsilon)) {
  const Weights named = by_name(weights);
  const auto norm_of = [&](const std::string& name) { return norm(named, name, d_model_); };
  source_input_ = input(named, "source_input", d_model_);
  target_input_ = input(named, "target_input", d_model_);
  if (shape.shortlist) words_.resize(source_keys_.slots);
  target_.push_back(buffers.target);
  if (!shape.recurrent) target_.push_back(buffers.target_values);
  const int64_t bytes = shape.recurrent ? sizeof(float) : sizeof(BFloat16);
  require(source_keys_.bytes == sizeof(BFloat16) && target_[0].bytes == bytes, "int8: a buffer's type");
  require(0 <= alignment_layer_ && alignment_layer_ < shape.decoder_layers, "int8: alignment_layer");
  for (int64_t i = 0; i < shape.encoder_layers; ++i) {
    const std::string layer = "encoder." + std::to_string(i) + ".";
    encoder_.push_back({linear(named, layer + "self_attention.qkv"), linear(named, layer + "self_attention.output"),
                        linear(named, layer + "feed_forward.inner"), outer(named, layer + "feed_forward.outer"),
                        norm_of(layer + "attention_residual.norm"), norm_of(layer + "feed_forward_residual.norm")});
  }
  for (int64_t i = 0; i < shape.decoder_layers; ++i) {
    const std::string layer = "decoder." + std::to_string(i) + ".";
    const std::string own = layer + "self_attention.", cross = layer + "cross_attention.";
    decoder_.push_back({linear(named, own + (shape.recurrent ? "recurrence" : "qkv")),
                        shape.recurrent ? Linear{} : linear(named, own + "output"), linear(named, cross + "query"),
                        linear(named, cross + "output"), linear(named, layer + "feed_forward.inner"),
                        outer(named, layer + "feed_forward.outer"), norm_of(layer + "self_attention_residual.norm"),
                        norm_of(layer + "cross_attention_residual.norm"),
                        norm_of(layer + "feed_forward_residual.norm")});
    source_kv_.push_back(linear(named, cross + "kv"));
  }
  if (pre_norm_) {
    encoder_norm_ = norm_of("encoder_norm");
    decoder_norm_ = norm_of("decoder_norm");
  }
  projection_ = linear(named, "projection", !shape.shortlist);
}

template <typename Number>
Number* Int8Transformer::keep(int64_t count) {
  constexpr int64_t kLine = 64;
  const int64_t bytes = (count * static_cast<int64_t>(sizeof(Number)) + kLine - 1) / kLine * kLine;
  void* memory = std::aligned_alloc(kLine, bytes);
  if (!memory) throw std::bad_alloc();
  packed_.emplace_back(memory);
  return static_cast<Number*>(std::memset(memory, 0, bytes));
}

Linear Int8Transformer::outer(const Weights& weights, const std::string& name) {
  Linear layer = linear(weights, name);
  layer.follows_relu = activation_ == Epilogue::relu;
  return layer;
}

Linear Int8Transformer::linear(const Weights& weights, const std::string& name, bool packed) {
  const auto found = weights.find(name + ".weight");
  require(found != weights.end() && found->second.bytes == 1, "int8: there is no ", name, ".weight of int8 numbers");
  const int64_t out = found->second.rows, in = found->second.columns;
  const int64_t groups = groups_for(in), blocks = (out + kBlock - 1) / kBlock;
  const auto* from = static_cast<const int8_t*>(found->second.data);
  auto* to = keep<int8_t>(blocks * groups * kBlock * kGroup);
  auto *scale = keep<float>(blocks * kBlock), *bias = keep<float>(blocks * kBlock);
  auto* sums = keep<int32_t>(blocks * kBlock);
  for (int64_t n = 0; n < out; ++n) {
    int32_t sum = 0;
    for (int64_t k = 0; k < in; ++k) {
      require(from[n * in + k] != -128, "int8: ", name, ".weight has a -128");
      sum += from[n * in + k];
      const int64_t place = packed ? (((n / kBlock) * groups + k / kGroup) * kBlock + n % kBlock) * kGroup + k % kGroup
                                   : n * groups * kGroup + k;
      to[place] = from[n * in + k];
    }
    sums[n] = 128 * sum;
  }
  std::copy_n(floats(weights, name + ".scale", out), out, scale);
  std::copy_n(floats(weights, name + ".bias", out), out, bias);
  return {in, out, groups, blocks, to, scale, bias, sums};
}

}  // namespace dragoman
