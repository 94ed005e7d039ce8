// Buffers of keys and values: [layers, slots, heads, positions, head_dim].

#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace dragoman {

// Copies the first positions of a slot to another.
inline void copy_slot(const at::Tensor& buffer, int64_t from, int64_t to, int64_t positions) {
  const int64_t layers = buffer.size(0), slots = buffer.size(1), heads = buffer.size(2), head_dim = buffer.size(4);
  const int64_t position = head_dim * buffer.element_size(), stride = buffer.size(3) * position;
  char* bytes = static_cast<char*>(buffer.mutable_data_ptr());
  for (int64_t layer = 0; layer < layers; ++layer)
    for (int64_t head = 0; head < heads; ++head)
      std::copy_n(bytes + ((layer * slots + from) * heads + head) * stride, positions * position,
                  bytes + ((layer * slots + to) * heads + head) * stride);
}

}  // namespace dragoman
