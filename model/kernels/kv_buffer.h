// The memory of keys and values: [layers, slots, heads, positions, head_dim].

#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace dragoman {

// Gives a slot the first positions of another.
inline void copy_slot(const at::Tensor& buffer, int64_t from, int64_t to, int64_t positions) {
  const int64_t layers = buffer.size(0), slots = buffer.size(1), heads = buffer.size(2), head_dim = buffer.size(4);
  const int64_t stride = buffer.size(3) * head_dim;
  float* memory = buffer.mutable_data_ptr<float>();
  for (int64_t layer = 0; layer < layers; ++layer)
    for (int64_t head = 0; head < heads; ++head)
      std::copy_n(memory + ((layer * slots + from) * heads + head) * stride, positions * head_dim,
                  memory + ((layer * slots + to) * heads + head) * stride);
}

}  // namespace dragoman
