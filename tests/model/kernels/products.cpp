// A program that ends with 1, or with an error of the compiler's sanitizer, if a product of some variant differs in a bit
// from the baseline's, or if a row that is not finite does not show.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compute.h"

using namespace dragoman;

namespace {

constexpr int64_t kOutputs = 3 * kBlock - 5, kPadded = 3 * kBlock, kStride = kOutputs + 3, kRows = 13;

std::vector<float> row_of(const std::string& kind, int64_t width, std::mt19937& dice) {
  std::normal_distribution<float> normal;
  std::vector<float> row(width);
  for (int64_t i = 0; i < width; ++i) {
    if (kind == "normal") row[i] = normal(dice);
    if (kind == "largest") row[i] = 1;
    if (kind == "smallest") row[i] = -1;
    if (kind == "alternating") row[i] = i % 2 ? 1 : -1;
    if (kind == "pairs") row[i] = i % 4 < 2 ? 1 : -1;
    if (kind == "at the limit") row[i] = i % 2 ? 64.0f / 127 : 65.0f / 127;  // and a single one that sets the scale
    if (kind == "positive") row[i] = normal(dice) < 0 ? 0 : std::abs(normal(dice));
    if (kind == "few") row[i] = i % 11 == 0 ? std::abs(normal(dice)) : 0;
  }
  if (kind == "at the limit") row[width / 2] = 1;
  return row;
}

std::vector<float> product(const Kernels& kernels, const Linear& layer, const std::vector<std::vector<float>>& rows,
                           Epilogue epilogue) {
  const int64_t bytes = kernels.row_bytes(layer.groups);
  // Of exactly this size, so that a sanitizer sees what is read or written behind it.
  std::vector<uint8_t> q(rows.size() * bytes, 0xAA);
  std::vector<float> scales(rows.size()), out(rows.size() * kStride, 0.5f);
  for (size_t r = 0; r < rows.size(); ++r) scales[r] = kernels.quantise(rows[r].data(), layer.in, q.data() + r * bytes);
  // In two parts, as threads take them.
  kernels.linear(layer, q.data(), scales.data(), rows.size(), 0, 1, epilogue, out.data(), kStride);
  kernels.linear(layer, q.data(), scales.data(), rows.size(), 1, layer.blocks, epilogue, out.data() + kBlock, kStride);
  return out;
}

std::vector<float> selected(const Kernels& kernels, const Linear& layer, const std::vector<float>& row) {
  std::vector<uint8_t> q(kernels.row_bytes(layer.groups), 0xAA);
  const float scale = kernels.quantise(row.data(), layer.in, q.data());
  const std::vector<int32_t> places = {0, 3, 77};
  std::vector<float> out(places.size());
  kernels.select(layer, q.data(), scale, places.data(), places.size(), out.data());
  return out;
}

bool is_same(const std::vector<float>& one, const std::vector<float>& other) {
  return std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

}  // namespace

int main() {
  const std::vector<const Kernels*> all = variants();
  const Kernels& reference = *all.back();
  std::mt19937 dice(7);
  int wrong = 0;
  for (const int64_t width : {4, 8, 20, 100, 256, 264, 520, 1001})
    for (const int extreme : {0, 1}) {
      const int64_t groups = groups_for(width), blocks = kPadded / kBlock;
      std::vector<int8_t> weight(blocks * groups * kBlock * kGroup);
      for (int8_t& each : weight) each = extreme ? (dice() % 8 ? 127 : -127) : static_cast<int>(dice() % 255) - 127;
      std::vector<int32_t> sums(kPadded), row_sums(kPadded);
      for (int64_t n = 0; n < kPadded; ++n)
        for (int64_t k = 0; k < groups * kGroup; ++k) {
          const int64_t place = (((n / kBlock) * groups + k / kGroup) * kBlock + n % kBlock) * kGroup + k % kGroup;
          if (k >= width) weight[place] = 0;
          sums[n] += 128 * weight[place];
        }
      for (int64_t n = 0; n < kPadded; ++n)
        for (int64_t k = 0; k < groups * kGroup; ++k) row_sums[n] += 128 * weight[n * groups * kGroup + k];
      const std::vector<float> scale(kPadded, 0.01f), bias(kPadded, 0.25f);
      Linear layer{width, kOutputs, groups, blocks, weight.data(), scale.data(), bias.data(), sums.data()};
      Linear in_rows = layer;
      in_rows.sum128 = row_sums.data();
      for (const char* kind : {"normal", "largest", "smallest", "alternating", "pairs", "at the limit", "positive", "few"}) {
        std::vector<std::vector<float>> rows;
        for (int64_t r = 1; r <= kRows; ++r) {
          rows.push_back(row_of(kind, width, dice));
          for (const Kernels* each : all) {
            layer.follows_relu = std::strcmp(kind, "positive") == 0 || std::strcmp(kind, "few") == 0;
            for (const Epilogue epilogue : {Epilogue::store, Epilogue::add})
              if (!is_same(product(*each, layer, rows, epilogue), product(reference, layer, rows, epilogue)))
                wrong += std::printf("%s: %s rows, %d of them, width %d\n", each->name, kind, int(r), int(width));
            if (!is_same(selected(*each, in_rows, rows.back()), selected(reference, in_rows, rows.back())))
              wrong += std::printf("%s: select, %s row, width %d\n", each->name, kind, int(width));
          }
        }
      }
    }
  // Bytes of what is not finite may be any, -128 too.
  for (const Kernels* each : all) {
    constexpr int64_t kWidth = 256, kGroups = groups_for(kWidth);
    std::vector<float> row(kWidth, -3e38f);
    row[100] = NAN;
    std::vector<uint8_t> q(each->row_bytes(kGroups));
    if (!std::isnan(each->quantise(row.data(), kWidth, q.data()))) wrong += std::printf("%s: hidden\n", each->name);
  }
  return wrong ? 1 : 0;
}
