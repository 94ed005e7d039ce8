// Buffers of keys and values: [layers, slots, heads, positions, head_dim].

#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace dragoman {

// Copies the first positions of a slot to another.
inline void copy_slot(const at::Tensor& buffer, int64_t from, int64_t to, int64_t positions) {
  const int64_t layers = buffer.size(0), slots = buffer.size(1), heads = buffer.size(2), head_dim = buffer.size(4);
  const int64_t stride = buffer.size(3) * head_dim;
  float* values = buffer.mutable_data_ptr<float>();
  for (int64_t layer = 0; layer < layers; ++layer)
    for (int64_t head = 0; head < heads; ++head)
      std::copy_n(values + ((layer * slots + from) * heads + head) * stride, positions * head_dim,
                  values + ((layer * slots + to) * heads + head) * stride);
}

}  // namespace dragoman
