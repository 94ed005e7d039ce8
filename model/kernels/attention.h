// Attention of many queries: those of the same length that follow one another are computed together.

#pragma once

#include "compute.h"

#include <cstdint>
#include <type_traits>
#include <vector>

namespace dragoman {

template <typename Number>
class Attention {
 public:
  // Queries have up to `longest` keys, which stand `stride` numbers apart.
  Attention(int64_t longest, int64_t stride, int64_t head_dim, float scale)
      : stride_(stride), head_dim_(head_dim), scale_(scale), weights_(kMostQueries * room_for(longest)) {}

  // The result is there after `finish`.
  void add(const Query<Number>& query, int64_t length) {
    if (count_ == kMostQueries || length != length_) finish();
    length_ = length;
    queries_[count_++] = query;
  }

  void finish() {
    if constexpr (std::is_same_v<Number, float>)
      kernels().attend(queries_, count_, length_, stride_, head_dim_, scale_, weights_.data());
    else
      kernels().attend_short(queries_, count_, length_, stride_, head_dim_, scale_, weights_.data());
    count_ = 0;
  }

 private:
  const int64_t stride_, head_dim_;
  const float scale_;
  std::vector<float> weights_;
  Query<Number> queries_[kMostQueries];
  int64_t count_ = 0, length_ = 0;
};

}  // namespace dragoman
