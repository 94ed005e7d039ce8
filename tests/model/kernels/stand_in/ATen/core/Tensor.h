// What parts.cpp needs of PyTorch, for a program without it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#define TORCH_CHECK(condition, ...) \
  if (!(condition)) throw std::runtime_error(#condition)

namespace at {

enum Type { kLong };

struct Tensor {
  const std::vector<int64_t>* numbers = nullptr;
  bool defined() const { return numbers; }
  Type dtype() const { return kLong; }
  bool is_contiguous() const { return true; }
  int64_t numel() const { return numbers->size(); }
  template <class Number>
  const Number* const_data_ptr() const {
    return numbers->data();
  }
};

}  // namespace at
