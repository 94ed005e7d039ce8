// The library's entry points: operators over rows of different length, without padding, and the int8 transformer.
//
// A row's result depends on that row alone and is summed in the same order in any batch: the same bits alone and among
// others. Keys and values are read where the cache keeps them; nothing is gathered first.
// float32 on a CPU.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "attention.h"
#include "kv_buffer.h"
#include "beams.h"
#include "compute.h"
#include "int8_transformer.h"
#include "parts.h"
#include "sampling.h"

namespace {

using dragoman::kernels;

// query [rows, heads, head_dim]; keys, values [slots, heads, positions, head_dim]; slots, lengths [rows]
at::Tensor attend_slots(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                        const at::Tensor& slots, const at::Tensor& lengths) {
  const int64_t rows = query.size(0), heads = query.size(1), head_dim = query.size(2);
  TORCH_CHECK(query.is_contiguous() && keys.is_contiguous() && values.is_contiguous() && slots.is_contiguous() &&
                  lengths.is_contiguous(), "attend_slots: a tensor is not contiguous");
  TORCH_CHECK(keys.sizes() == values.sizes() && keys.size(1) == heads && keys.size(3) == head_dim &&
                  slots.numel() == rows && lengths.numel() == rows, "attend_slots: shapes do not match");
  at::Tensor out = at::empty(query.sizes(), query.options());
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  const int64_t* slot = slots.const_data_ptr<int64_t>();
  const int64_t* length = lengths.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < rows; ++row)
    TORCH_CHECK(0 <= slot[row] && slot[row] < keys.size(0) && 0 < length[row] && length[row] <= keys.size(2),
                "attend_slots: row ", row, " looks at ", length[row], " positions of slot ", slot[row]);
  const float *q = query.const_data_ptr<float>(), *k = keys.const_data_ptr<float>(), *v = values.const_data_ptr<float>();
  float* result = out.mutable_data_ptr<float>();
  at::parallel_for(0, rows * heads, 16, [&](int64_t begin, int64_t end) {
    dragoman::Attention<float> attention(keys.size(2), head_dim, head_dim, scale);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / heads, head = i % heads;
      const int64_t start = slot[row] * keys.stride(0) + head * keys.stride(1);
      attention.add({q + i * head_dim, k + start, v + start, result + i * head_dim}, length[row]);
    }
    attention.finish();
  });
  return out;
}

// query, keys, values [tokens, heads, head_dim]: sequence s is tokens offsets[s]..offsets[s + 1], offsets [sequences + 1]
at::Tensor attend_packed(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                         const at::Tensor& offsets) {
  const int64_t tokens = query.size(0), heads = query.size(1), head_dim = query.size(2), width = heads * head_dim;
  TORCH_CHECK(query.is_contiguous() && keys.is_contiguous() && values.is_contiguous() && offsets.is_contiguous(),
              "attend_packed: a tensor is not contiguous");
  TORCH_CHECK(keys.sizes() == query.sizes() && values.sizes() == query.sizes(), "attend_packed: shapes do not match");
  at::Tensor out = at::empty(query.sizes(), query.options());
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  const int64_t* offset = offsets.const_data_ptr<int64_t>();
  const int64_t sequences = offsets.size(0) - 1;
  TORCH_CHECK(sequences >= 0 && offset[0] == 0 && offset[sequences] == tokens,
              "attend_packed: offsets do not cover the ", tokens, " tokens");
  for (int64_t s = 0; s < sequences; ++s)
    TORCH_CHECK(offset[s] <= offset[s + 1], "attend_packed: offsets go back at sequence ", s);
  std::vector<int64_t> sequence_of(tokens);
  int64_t longest = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    std::fill(sequence_of.begin() + offset[s], sequence_of.begin() + offset[s + 1], s);
    longest = std::max(longest, offset[s + 1] - offset[s]);
  }
  const float *q = query.const_data_ptr<float>(), *k = keys.const_data_ptr<float>(), *v = values.const_data_ptr<float>();
  float* result = out.mutable_data_ptr<float>();
  // A head at a time over a sequence's queries: its keys and values stay in the cache of the core.
  at::parallel_for(0, heads * tokens, 64, [&](int64_t begin, int64_t end) {
    dragoman::Attention<float> attention(longest, width, head_dim, scale);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / tokens, token = i % tokens;
      const int64_t first = offset[sequence_of[token]], length = offset[sequence_of[token] + 1] - first;
      const int64_t start = first * width + head * head_dim;
      const int64_t place = token * width + head * head_dim;
      attention.add({q + place, k + start, v + start, result + place}, length);
    }
    attention.finish();
  });
  return out;
}

// logits [rows, vocab], totals [rows], sizes [beams] of the beams that stand together -> rows within the beam, tokens,
// log-probabilities, totals [beams, count]
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> best_extensions(const at::Tensor& logits,
                                                                           const at::Tensor& totals,
                                                                           at::IntArrayRef sizes, int64_t count) {
  const int64_t rows = logits.size(0), vocab = logits.size(1), beams = sizes.size();
  TORCH_CHECK(logits.is_contiguous() && totals.is_contiguous() && totals.numel() == rows && 0 < count,
              "best_extensions: shapes do not match");
  std::vector<int64_t> offsets(beams + 1);
  for (int64_t beam = 0; beam < beams; ++beam) {
    TORCH_CHECK(0 <= sizes[beam] && sizes[beam] <= rows - offsets[beam], "best_extensions: beam ", beam, " has ",
                sizes[beam], " rows of the ", rows - offsets[beam], " that are left");
    offsets[beam + 1] = offsets[beam] + sizes[beam];
  }
  TORCH_CHECK(offsets.back() == rows, "best_extensions: beams of ", offsets.back(), " rows, of which there are ", rows);
  at::Tensor parents = at::empty({beams, count}, at::kLong), tokens = at::empty({beams, count}, at::kLong);
  at::Tensor logprobs = at::empty({beams, count}, at::kFloat), sums = at::empty({beams, count}, at::kFloat);
  const dragoman::ExtensionTable table{count, parents.mutable_data_ptr<int64_t>(), tokens.mutable_data_ptr<int64_t>(),
                                       logprobs.mutable_data_ptr<float>(), sums.mutable_data_ptr<float>()};
  const float *from = logits.const_data_ptr<float>(), *start = totals.const_data_ptr<float>();
  at::parallel_for(0, beams, 4, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> places(count);
    std::vector<float> values(count);
    for (int64_t beam = begin; beam < end; ++beam) {
      dragoman::BestExtensions best(count);
      for (int64_t row = offsets[beam]; row < offsets[beam + 1]; ++row) {
        dragoman::Ranking ranking{count, 0, places.data(), values.data()};
        const dragoman::Summary all = kernels().summarise(from + row * vocab, vocab, INFINITY);
        kernels().rank(from + row * vocab, vocab, 0, ranking);
        const float log_sum = static_cast<float>(dragoman::logarithm(all.total));
        best.push(row - offsets[beam], ranking, all.largest, log_sum, start[row]);
      }
      table.write(beam, best.best());
    }
  });
  return {parents, tokens, logprobs, sums};
}

// logits [rows, vocab]; how each row is sampled, [rows] each -> tokens, log-probabilities [rows]
std::tuple<at::Tensor, at::Tensor> sample(const at::Tensor& logits, const at::Tensor& temperatures,
                                          const at::Tensor& top_ks, const at::Tensor& top_ps, const at::Tensor& noise) {
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  TORCH_CHECK(logits.is_contiguous() && vocab > 0, "sample: shapes do not match");
  for (const at::Tensor& each : {temperatures, top_ks, top_ps, noise})
    TORCH_CHECK(each.is_contiguous() && each.numel() == rows, "sample: shapes do not match");
  at::Tensor tokens = at::empty({rows}, logits.options().dtype(at::kLong)), logprobs = at::empty({rows}, logits.options());
  const float *from = logits.const_data_ptr<float>(), *temperature = temperatures.const_data_ptr<float>();
  const float* top_p = top_ps.const_data_ptr<float>();
  const int64_t *top_k = top_ks.const_data_ptr<int64_t>(), *state = noise.const_data_ptr<int64_t>();
  int64_t* token = tokens.mutable_data_ptr<int64_t>();
  float* logprob = logprobs.mutable_data_ptr<float>();
  at::parallel_for(0, rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const dragoman::Sampling options{temperature[row], top_p[row], top_k[row], static_cast<uint64_t>(state[row])};
      const dragoman::Choice choice = dragoman::choose(from + row * vocab, vocab, options);
      token[row] = choice.token;
      logprob[row] = choice.logprob;
    }
  });
  return {tokens, logprobs};
}

// buffer [layers, slots, heads, positions, head_dim]; copies [n, 3]: (from slot, to slot, positions), one after the other
void copy_slots(const at::Tensor& buffer, const at::Tensor& copies) {
  const int64_t slots = buffer.size(1), positions = buffer.size(3);
  TORCH_CHECK(buffer.is_contiguous() && copies.is_contiguous() && copies.dim() == 2 && copies.size(1) == 3,
              "copy_slots: shapes do not match");
  for (int64_t i = 0; i < copies.size(0); ++i) {
    const int64_t* copy = copies.const_data_ptr<int64_t>() + 3 * i;
    TORCH_CHECK(0 <= copy[0] && copy[0] < slots && 0 <= copy[1] && copy[1] < slots && copy[0] != copy[1] && 0 <= copy[2] &&
                    copy[2] <= positions, "copy_slots: ", copy[2], " positions from slot ", copy[0], " to ", copy[1]);
    dragoman::copy_slot(buffer, copy[0], copy[1], copy[2]);
  }
}

std::vector<std::string> variants() {
  std::vector<std::string> names;
  for (const auto* each : dragoman::variants()) names.emplace_back(each->name);
  return names;
}

void choose_variant(const std::string& name) { TORCH_CHECK(dragoman::choose(name), name, " does not run here"); }

}  // namespace

TORCH_LIBRARY(dragoman, library) {
  library.def("attend_slots(Tensor query, Tensor keys, Tensor values, Tensor slots, Tensor lengths) -> Tensor");
  library.def("attend_packed(Tensor query, Tensor keys, Tensor values, Tensor offsets) -> Tensor");
  library.def("best_extensions(Tensor logits, Tensor totals, int[] sizes, int count) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def("sample(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor noise) -> (Tensor, Tensor)");
  library.def("copy_slots(Tensor(a!) buffer, Tensor copies) -> ()");
  library.def("variants() -> str[]", variants);
  library.def("choose_variant(str name) -> ()", choose_variant);
  library.def("lend_threads(Tensor idle_since, int own, int threads) -> ()");
  library.def("usable_threads() -> int", dragoman::usable_threads);
  using dragoman::Int8Transformer;
  library.class_<Int8Transformer>("Int8Transformer")
      .def(torch::init<Int8Transformer::Numbers, Int8Transformer::Tensors, Int8Transformer::Tensors>())
      .def("encode", &Int8Transformer::encode)
      .def("decode", [](const c10::intrusive_ptr<Int8Transformer>& self, const std::vector<at::Tensor>& queries,
                        const c10::List<c10::List<int64_t>>& outputs, const std::vector<at::Tensor>& beams,
                        const std::vector<at::Tensor>& plain, const std::vector<int64_t>& numbers, double seconds) {
        TORCH_CHECK(queries.size() == 5 && outputs.size() == 3 && beams.size() == 2 && plain.size() == 5 &&
                        numbers.size() == 2, "int8: the arguments of a block are not complete");
        const auto rows = [&](size_t number) { return outputs.get(number).vec(); };
        return self->decode({queries[0], queries[1], queries[2], queries[3], queries[4], {rows(0), rows(1), rows(2)},
                             beams[0], beams[1], {plain[0], plain[1], plain[2], plain[3], plain[4]}, numbers[0],
                             numbers[1], seconds});
      });
}

TORCH_LIBRARY_IMPL(dragoman, CPU, library) {
  library.impl("attend_slots", attend_slots);
  library.impl("attend_packed", attend_packed);
  library.impl("best_extensions", best_extensions);
  library.impl("sample", sample);
  library.impl("copy_slots", copy_slots);
  library.impl("lend_threads", dragoman::lend_threads);
}
