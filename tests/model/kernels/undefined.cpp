// A program that ends with an error of the compiler's sanitizer, or with 1, if a kernel does what has no defined result
// with numbers that are not finite, or hides them.

#include <cmath>
#include <cstdint>
#include <vector>

#include "compute.h"
#include "ranking.h"
#include "sampling.h"

using namespace dragoman;

namespace {

constexpr int64_t kWidth = 200;

bool survives(const std::vector<float>& row) {
  const Kernels& all = kernels();
  std::vector<float> out(kWidth), weights(kWidth), best(kWidth);
  const int64_t groups = groups_for(kWidth), blocks = (kWidth + kBlock - 1) / kBlock;
  std::vector<uint8_t> q(all.row_bytes(groups));
  const bool shows = !std::isfinite(all.quantise(row.data(), kWidth, q.data()));
  all.normalise(row.data(), row.data(), row.data(), 1e-5f, kWidth, out.data());
  all.recur(row.data(), row.data(), row.data(), kWidth, weights.data(), out.data());
  const Query<float> query{row.data(), row.data(), row.data(), out.data()};
  all.attend(&query, 1, 6, 32, 32, 1.0f, weights.data());

  const std::vector<int8_t> weight(blocks * groups * kBlock * kGroup, 3);
  const std::vector<float> scale(blocks * kBlock, 1), bias(blocks * kBlock, 0);
  const std::vector<int32_t> sums(blocks * kBlock, 0);
  const Linear layer{kWidth, kWidth, groups, blocks, weight.data(), scale.data(), bias.data(), sums.data()};
  for (const Epilogue epilogue : {Epilogue::store, Epilogue::relu, Epilogue::gelu, Epilogue::swish, Epilogue::add})
    all.linear(layer, q.data(), row.data(), 1, 0, blocks, epilogue, out.data(), kWidth);

  const Summary summary = all.summarise(row.data(), kWidth, -INFINITY);
  std::vector<int64_t> places(8);
  std::vector<float> values(8);
  Ranking ranking{8, 0, places.data(), values.data()};
  all.rank(row.data(), kWidth, 0, ranking);
  for (const Sampling& options : {Sampling{1.0f, 1.0f, 0, 5}, Sampling{0.01f, 0.9f, 0, 5}, Sampling{1.0f, 1.0f, 7, 5}}) {
    const int64_t token = sample(row.data(), kWidth, summary.place, options);
    if (token < 0 || token >= kWidth) return false;
  }
  return shows;
}

}  // namespace

int main() {
  bool good = true;
  for (const float wrong : {NAN, -NAN, INFINITY, -INFINITY})
    for (const int64_t place : {int64_t{0}, int64_t{77}, kWidth - 1}) {
      std::vector<float> row(kWidth);
      for (int64_t i = 0; i < kWidth; ++i) row[i] = static_cast<float>(i % 13) - 6;
      row[place] = wrong;
      good &= survives(row);
    }
  good &= survives(std::vector<float>(kWidth, NAN));
  return good ? 0 : 1;
}
