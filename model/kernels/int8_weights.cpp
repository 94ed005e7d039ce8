// The construction of `Int8Transformer`: it takes its weights by name and packs them.

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "int8_transformer.h"

namespace dragoman {

Int8Transformer::Int8Transformer(Numbers shape, Tensors weights, Tensors buffers)
    : weights_(std::move(weights)),
      source_keys_(buffers.at("source_keys")),
      source_values_(buffers.at("source_values")),
      d_model_(shape.at("d_model")),
      heads_(shape.at("num_heads")),
      head_dim_(d_model_ / heads_),
      widest_(std::max(3 * d_model_, shape.at("ffn_dim"))),
      alignment_layer_(shape.at("alignment_layer")),
      target_slots_(shape.at("slots")),
      target_positions_(shape.at("target_positions")),
      pre_norm_(shape.at("pre_norm") != 0),
      see_own_(shape.at("recurrent") ? &Int8Transformer::recur : &Int8Transformer::attend_to_own),
      score_(shape.at("shortlist") ? &Int8Transformer::score_words : &Int8Transformer::score_all),
      activation_(static_cast<Epilogue>(shape.at("activation"))),
      attention_scale_(1 / std::sqrt(static_cast<float>(head_dim_))),
      embedding_scale_(shape.at("scale_embedding") ? std::sqrt(static_cast<float>(d_model_)) : 1.0f),
      norm_epsilon_(tensor("norm_epsilon").item<float>()),
      source_input_(input("source_input")),
      target_input_(input("target_input")) {
  const bool recurrent = shape.at("recurrent"), shortlist = shape.at("shortlist");
  if (shortlist) words_.resize(source_keys_.size(1));
  for (const auto& name : recurrent ? std::vector{"target_states"} : std::vector{"target_keys", "target_values"})
    target_.push_back(buffers.at(name));
  for (const auto& entry : buffers) {
    const auto dtype = entry.key() == "target_states" ? at::kFloat : at::kBFloat16;
    TORCH_CHECK(entry.value().is_contiguous() && entry.value().dtype() == dtype, "int8: ", entry.key(),
                " is not contiguous ", dtype);
  }
  TORCH_CHECK(0 <= alignment_layer_ && alignment_layer_ < shape.at("decoder_layers"), "int8: alignment_layer");
  for (int64_t i = 0; i < shape.at("encoder_layers"); ++i) {
    const std::string layer = "encoder." + std::to_string(i) + ".";
    encoder_.push_back({linear(layer + "self_attention.qkv"), linear(layer + "self_attention.output"),
                        linear(layer + "feed_forward.inner"), outer(layer + "feed_forward.outer"),
                        norm(layer + "attention_residual.norm"), norm(layer + "feed_forward_residual.norm")});
  }
  for (int64_t i = 0; i < shape.at("decoder_layers"); ++i) {
    const std::string layer = "decoder." + std::to_string(i) + ".";
    const std::string own = layer + "self_attention.";
    decoder_.push_back({linear(own + (recurrent ? "recurrence" : "qkv")), recurrent ? Linear{} : linear(own + "output"),
                        linear(layer + "cross_attention.query"), linear(layer + "cross_attention.output"),
                        linear(layer + "feed_forward.inner"), outer(layer + "feed_forward.outer"),
                        norm(layer + "self_attention_residual.norm"), norm(layer + "cross_attention_residual.norm"),
                        norm(layer + "feed_forward_residual.norm")});
    source_kv_.push_back(linear(layer + "cross_attention.kv"));
  }
  projection_ = linear("projection", !shortlist);
  // The unpacked ones are not needed any more.
  std::vector<std::string> unpacked;
  for (const auto& entry : weights_)
    if (entry.value().dtype() == at::kChar) unpacked.push_back(entry.key());
  for (const auto& name : unpacked) static_cast<void>(weights_.erase(name));
}

at::Tensor Int8Transformer::tensor(const std::string& name) const {
  TORCH_CHECK(weights_.contains(name), "int8: there is no ", name);
  return weights_.at(name);
}

Norm Int8Transformer::norm(const std::string& name) const {
  return {tensor(name + ".weight").const_data_ptr<float>(), tensor(name + ".bias").const_data_ptr<float>()};
}

Input Int8Transformer::input(const std::string& name) const {
  const Norm none{nullptr, nullptr};
  return {tensor(name + ".tokens"), tensor(name + ".table"),
          weights_.contains(name + ".norm.weight") ? norm(name + ".norm") : none};
}

Linear Int8Transformer::outer(const std::string& name) {
  Linear layer = linear(name);
  layer.follows_relu = activation_ == Epilogue::relu;
  return layer;
}

Linear Int8Transformer::linear(const std::string& name, bool packed) {
  const at::Tensor weight = tensor(name + ".weight"), scale = tensor(name + ".scale"), bias = tensor(name + ".bias");
  TORCH_CHECK(weight.dtype() == at::kChar && weight.is_contiguous() && weight.dim() == 2, "int8: ", name);
  const int64_t out = weight.size(0), in = weight.size(1);
  const int64_t groups = groups_for(in), blocks = (out + kBlock - 1) / kBlock;
  at::Tensor stored = at::zeros({blocks, groups, kBlock, kGroup}, at::kChar);
  at::Tensor scales = at::zeros({blocks * kBlock}, at::kFloat), biases = at::zeros({blocks * kBlock}, at::kFloat);
  at::Tensor sums = at::zeros({blocks * kBlock}, at::kInt);
  const int8_t* from = weight.const_data_ptr<int8_t>();
  int8_t* to = stored.mutable_data_ptr<int8_t>();
  for (int64_t n = 0; n < out; ++n) {
    int32_t sum = 0;
    for (int64_t k = 0; k < in; ++k) {
      TORCH_CHECK(from[n * in + k] != -128, "int8: ", name, ".weight has a -128");
      sum += from[n * in + k];
      const int64_t place = packed ? (((n / kBlock) * groups + k / kGroup) * kBlock + n % kBlock) * kGroup + k % kGroup
                                   : n * groups * kGroup + k;
      to[place] = from[n * in + k];
    }
    sums.mutable_data_ptr<int32_t>()[n] = 128 * sum;
  }
  scales.narrow(0, 0, out).copy_(scale);
  biases.narrow(0, 0, out).copy_(bias);
  packed_.insert(packed_.end(), {stored, scales, biases, sums});
  return {in, out, groups, blocks, stored.const_data_ptr<int8_t>(), scales.const_data_ptr<float>(),
          biases.const_data_ptr<float>(), sums.const_data_ptr<int32_t>()};
}

}  // namespace dragoman
