// The output projection of a decode step: see int8_transformer.h. The logits of a row are examined part by part, while
// they are in the core's cache, and kept only where they are needed.

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "elementary.h"
#include "int8_transformer.h"
#include "parts.h"

namespace dragoman {
namespace {

constexpr int64_t kChunkBlocks = 8;  // of logits that are summarised at a time

}  // namespace

std::vector<Int8Transformer::Draw> Int8Transformer::draws_of(const Batch& batch) const {
  std::vector<Draw> draws;
  const Plain& plain = batch.plain;
  if (plain.temperatures.numel() == 0) return draws;
  const float *temperature = plain.temperatures.const_data_ptr<float>(), *top_p = plain.top_ps.const_data_ptr<float>();
  const int64_t *top_k = plain.top_ks.const_data_ptr<int64_t>(), *seed = plain.seeds.const_data_ptr<int64_t>();
  const int64_t* position = batch.positions.const_data_ptr<int64_t>();
  for (size_t i = 0; i < batch.places.size(); ++i) {
    const int64_t number = batch.places[i], row = rows_ - batch.places.size() + i;
    if (temperature[number] > 0)
      draws.push_back({row, {temperature[number], top_p[number], top_k[number],
                             noise_state(static_cast<uint64_t>(seed[number]), position[row])}});
  }
  return draws;
}

void Int8Transformer::keep_words(const at::Tensor& allowed, const at::Tensor& slots) {
  const int64_t sources = words_.empty() ? 0 : slots.numel(), vocab = projection_.out;
  TORCH_CHECK(allowed.dtype() == at::kBool && allowed.is_contiguous() && allowed.numel() == sources * vocab,
              "int8: words must be ", sources, " x ", vocab, " contiguous truth values");
  for (int64_t s = 0; s < sources; ++s) {
    const bool* own = allowed.const_data_ptr<bool>() + s * vocab;
    std::vector<int32_t>& words = words_[slots.const_data_ptr<int64_t>()[s]];
    words.clear();
    for (const bool *at = own, *end = own + vocab; (at = static_cast<const bool*>(std::memchr(at, true, end - at))); ++at)
      words.push_back(at - own);
  }
}

void Int8Transformer::score_all(const Batch& batch, const std::vector<Beam>& beams, StepLogits& logits) {
  const int64_t vocab = projection_.out, stride = kChunkBlocks * kBlock;
  const std::vector<int64_t>& logit_rows = batch.outputs.logits;
  in_parts(logits.parts, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> some(rows_ * stride), tops(rows_, -INFINITY);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kChunkBlocks, last = std::min(first + kChunkBlocks, projection_.blocks);
      const int64_t start = first * kBlock, width = std::min(last * kBlock, vocab) - start;
      kernels().linear(projection_, q_.data(), scales_.data(), rows_, first, last, Epilogue::store, some.data(), stride);
      for (int64_t row = 0; row < rows_; ++row) {
        Summary part = kernels().summarise(some.data() + row * stride, width, tops[row]);
        part.place += start;
        logits.summaries[chunk * rows_ + row] = part;
        tops[row] = larger(part.largest, tops[row]);
      }
      for (size_t i = 0; i < logit_rows.size(); ++i)
        std::copy_n(some.data() + logit_rows[i] * stride, width, logits.kept + i * vocab + start);
      for (size_t i = 0; i < logits.draws.size(); ++i)
        std::copy_n(some.data() + logits.draws[i].row * stride, width, logits.drawn.get() + i * vocab + start);
      for (const Beam& beam : beams)
        for (int64_t row = beam.first; row < beam.first + beam.rows; ++row)
          kernels().rank(some.data() + row * stride, width, start, logits.rankings.of(row, begin));
    }
  });
}

void Int8Transformer::score_words(const Batch& batch, const std::vector<Beam>& beams, StepLogits& logits) {
  const int64_t vocab = projection_.out, stride = kernels().row_bytes(projection_.groups);
  const std::vector<int64_t>& logit_rows = batch.outputs.logits;
  const int64_t* source = batch.source_slots.const_data_ptr<int64_t>();
  std::fill_n(logits.kept, logit_rows.size() * vocab, -INFINITY);
  std::fill_n(logits.drawn.get(), logits.draws.size() * vocab, -INFINITY);
  in_parts(rows_, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> some;
    for (int64_t row = begin; row < end; ++row) {
      const std::vector<int32_t>& words = words_[source[row]];
      const int64_t count = words.size();
      TORCH_CHECK(count > 0, "int8: slot ", source[row], " has no words");
      some.resize(count);
      kernels().select(projection_, q_.data() + row * stride, scales_[row], words.data(), count, some.data());
      Summary& all = logits.summaries[row];
      all = kernels().summarise(some.data(), count, -INFINITY);
      all.place = words[all.place];
      const auto copy = [&](float* to) {
        for (int64_t i = 0; i < count; ++i) to[words[i]] = some[i];
      };
      for (size_t i = 0; i < logit_rows.size(); ++i)
        if (logit_rows[i] == row) copy(logits.kept + i * vocab);
      for (size_t i = 0; i < logits.draws.size(); ++i)
        if (logits.draws[i].row == row) copy(logits.drawn.get() + i * vocab);
      for (const Beam& beam : beams) {
        if (row < beam.first || row >= beam.first + beam.rows) continue;
        Ranking& ranking = logits.rankings.of(row, 0);
        kernels().rank(some.data(), count, 0, ranking);
        for (int64_t i = 0; i < ranking.found; ++i) ranking.places[i] = words[ranking.places[i]];
      }
    }
  });
}

void Int8Transformer::project(const Batch& batch, const std::vector<Beam>& beams, Scores& scores) {
  const int64_t vocab = projection_.out, logit_rows = batch.outputs.logits.size();
  const int64_t parts = words_.empty() ? (projection_.blocks + kChunkBlocks - 1) / kChunkBlocks : 1;
  scores.best = at::empty({rows_}, at::kLong);
  scores.logprobs = at::empty({rows_}, at::kFloat);
  scores.logits = at::empty({logit_rows, vocab}, at::kFloat);
  int64_t* best = scores.best.mutable_data_ptr<int64_t>();
  float* logprobs = scores.logprobs.mutable_data_ptr<float>();
  StepLogits logits{parts, draws_of(batch), std::vector<Summary>(parts * rows_), {},
                    scores.logits.mutable_data_ptr<float>(), {beams, parts}};
  logits.drawn = std::make_unique_for_overwrite<float[]>(logits.draws.size() * vocab);
  quantise(states_.data(), d_model_);
  (this->*score_)(batch, beams, logits);
  std::vector<float> largests(rows_);
  for (int64_t row = 0; row < rows_; ++row) {
    int64_t place = logits.summaries[row].place;
    float largest = logits.summaries[row].largest;
    for (int64_t part = 1; part < parts; ++part) {
      const Summary& next = logits.summaries[part * rows_ + row];
      if (!(next.largest > largest)) continue;  // of equal ones the first
      largest = next.largest;
      place = next.place;
    }
    double total = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const Summary& own = logits.summaries[part * rows_ + row];
      total += own.total * exp_of_negative(own.largest - largest);
    }
    largests[row] = largest;
    best[row] = place;
    logprobs[row] = static_cast<float>(-logarithm(total));
  }
  in_parts(logits.draws.size(), 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Choice choice = choose(logits.drawn.get() + i * vocab, vocab, logits.draws[i].options);
      best[logits.draws[i].row] = choice.token;
      logprobs[logits.draws[i].row] = choice.logprob;
    }
  });
  const float* totals = beams.empty() ? nullptr : batch.totals.const_data_ptr<float>();
  for (const Beam& beam : beams) {
    BestExtensions& extensions = scores.extensions.emplace_back(2 * beam.size);
    for (int64_t row = beam.first; row < beam.first + beam.rows; ++row)
      extensions.push(row - beam.first, logits.rankings.whole(row), largests[row], -logprobs[row], totals[row]);
  }
}

}  // namespace dragoman
