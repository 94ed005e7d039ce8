// The library's C interface, which model/kernels/library.py calls: operators over rows of logits, and the int8
// transformer. A row's result depends on that row alone and is summed in the same order in any batch: the same bits alone
// and among others.
//
// Arrays are contiguous and stay the caller's. Each function returns -1 where it fails; `dragoman_error` has the reason.
// `threads` is the number that the process has for one call (`set_threads`).

#include "interface.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

#include "beams.h"
#include "checks.h"
#include "compute.h"
#include "int8_transformer.h"
#include "parts.h"
#include "sampling.h"

#define EXPORTED __attribute__((visibility("default")))

namespace {

using namespace dragoman;

thread_local std::string error;

// Calls a function that returns a number; no exception leaves the library.
template <class Function>
int64_t caught(const Function& function) {
  try {
    return function();
  } catch (const std::exception& thrown) {
    error = thrown.what();
    return -1;
  }
}

Int8Transformer& of(void* transformer) { return *static_cast<Int8Transformer*>(transformer); }

}  // namespace

extern "C" {

// The reason of this thread's last failure.
EXPORTED const char* dragoman_error() { return error.c_str(); }

// The names of the variants that this processor can run, the best first, a space behind each.
EXPORTED const char* dragoman_variants() {
  static const std::string names = [] {
    std::string all;
    for (const Kernels* each : variants()) all.append(each->name).push_back(' ');
    return all;
  }();
  return names.c_str();
}

EXPORTED int64_t dragoman_choose_variant(const char* name) {
  return caught([&] {
    require(choose(name), name, " does not run here");
    return 0;
  });
}

EXPORTED int64_t dragoman_lend_threads(const int64_t* idle_since, int64_t engines, int64_t own, int64_t threads) {
  return caught([&] {
    lend_threads(idle_since, engines, own, threads);
    return 0;
  });
}

EXPORTED int64_t dragoman_usable_threads(int64_t threads) {
  set_threads(threads);
  return usable_threads();
}

// logits [rows, vocab], totals [rows], sizes [beams] of the beams that stand together -> parents (rows within the beam),
// tokens, log-probabilities, sums [beams, count]
EXPORTED int64_t dragoman_best_extensions(const float* logits, const float* totals, const int64_t* sizes, int64_t rows,
                                          int64_t vocab, int64_t beams, int64_t count, int64_t* parents, int64_t* tokens,
                                          float* logprobs, float* sums, int64_t threads) {
  return caught([&] {
    require(0 < count, "best_extensions: shapes do not match");
    std::vector<int64_t> offsets(beams + 1);
    for (int64_t beam = 0; beam < beams; ++beam) {
      require(0 <= sizes[beam] && sizes[beam] <= rows - offsets[beam], "best_extensions: beam ", beam, " has ",
              sizes[beam], " rows of the ", rows - offsets[beam], " that are left");
      offsets[beam + 1] = offsets[beam] + sizes[beam];
    }
    require(offsets.back() == rows, "best_extensions: beams of ", offsets.back(), " rows, of which there are ", rows);
    const ExtensionTable table{count, parents, tokens, logprobs, sums};
    set_threads(threads);
    in_parts(beams, 4, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> places(count);
      std::vector<float> values(count);
      for (int64_t beam = begin; beam < end; ++beam) {
        BestExtensions best(count);
        for (int64_t row = offsets[beam]; row < offsets[beam + 1]; ++row) {
          Ranking ranking{count, 0, places.data(), values.data()};
          const Summary all = kernels().summarise(logits + row * vocab, vocab, INFINITY);
          kernels().rank(logits + row * vocab, vocab, 0, ranking);
          best.push(row - offsets[beam], ranking, all.largest, static_cast<float>(logarithm(all.total)), totals[row]);
        }
        table.write(beam, best.best());
      }
    });
    return 0;
  });
}

// logits [rows, vocab]; how each row is sampled, [rows] each -> tokens, log-probabilities [rows]
EXPORTED int64_t dragoman_sample(const float* logits, const float* temperatures, const int64_t* top_ks,
                                 const float* top_ps, const int64_t* noise, int64_t rows, int64_t vocab, int64_t* tokens,
                                 float* logprobs, int64_t threads) {
  return caught([&] {
    require(0 < vocab, "sample: shapes do not match");
    set_threads(threads);
    in_parts(rows, 8, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const Sampling options{temperatures[row], top_ps[row], top_ks[row], static_cast<uint64_t>(noise[row])};
        const Choice choice = choose(logits + row * vocab, vocab, options);
        tokens[row] = choice.token;
        logprobs[row] = choice.logprob;
      }
    });
    return 0;
  });
}

// copies [count, 3]: (from slot, to slot, positions), one after the other
EXPORTED int64_t dragoman_copy_slots(const Buffer* buffer, const int64_t* copies, int64_t count) {
  return caught([&] {
    for (const int64_t *copy = copies, *end = copies + 3 * count; copy < end; copy += 3) {
      require(0 <= copy[0] && copy[0] < buffer->slots && 0 <= copy[1] && copy[1] < buffer->slots && copy[0] != copy[1] &&
                  0 <= copy[2] && copy[2] <= buffer->positions,
              "copy_slots: ", copy[2], " positions from slot ", copy[0], " to ", copy[1]);
      buffer->copy_slot(copy[0], copy[1], copy[2]);
    }
    return 0;
  });
}

// A transformer, which keeps the addresses of all weights that are not int8, and of the buffers; nullptr where it fails.
EXPORTED void* dragoman_transformer_new(const DragomanShape* shape, const DragomanWeight* weights, int64_t count,
                                        const DragomanBuffers* buffers) {
  Int8Transformer* made = nullptr;
  caught([&] {
    made = new Int8Transformer(*shape, {weights, weights + count}, *buffers);
    return 0;
  });
  return made;
}

EXPORTED void dragoman_transformer_delete(void* transformer) { delete &of(transformer); }

// ids, positions [tokens]; offsets [sources + 1]; slots [sources]; `words` truth values, [sources, vocab] with a shortlist.
EXPORTED int64_t dragoman_transformer_encode(void* transformer, const int64_t* ids, const int64_t* positions,
                                             int64_t tokens, const int64_t* offsets, const int64_t* slots,
                                             int64_t sources, const bool* allowed, int64_t words, int64_t threads) {
  return caught([&] {
    set_threads(threads);
    of(transformer).encode(ids, positions, tokens, offsets, slots, sources, allowed, words);
    return 0;
  });
}

// Returns the number of steps that were run.
EXPORTED int64_t dragoman_transformer_decode(void* transformer, const DragomanBatch* batch, const DragomanScores* scores,
                                             int64_t threads) {
  return caught([&] {
    set_threads(threads);
    return of(transformer).decode(*batch, *scores);
  });
}
}
