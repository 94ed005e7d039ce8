// Buffers of keys and values, or of recurrent states: contiguous, in Python's memory.

#pragma once

#include <algorithm>
#include <cstdint>

namespace dragoman {

// [layers, slots, heads, positions, width] of numbers of `bytes` each.
struct Buffer {
  void* data;
  int64_t layers, slots, heads, positions, width, bytes;

  template <typename Number>
  Number* numbers() const {
    return static_cast<Number*>(data);
  }

  // Numbers of one layer.
  int64_t layer_size() const { return slots * heads * positions * width; }

  // Copies the first positions of a slot to another.
  void copy_slot(int64_t from, int64_t to, int64_t count) const {
    const int64_t position = width * bytes, stride = positions * position;
    for (int64_t layer = 0; layer < layers; ++layer)
      for (int64_t head = 0; head < heads; ++head)
        std::copy_n(numbers<char>() + ((layer * slots + from) * heads + head) * stride, count * position,
                    numbers<char>() + ((layer * slots + to) * heads + head) * stride);
  }
};

}  // namespace dragoman
