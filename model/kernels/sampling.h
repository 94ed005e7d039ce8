// Draws of tokens as model/sampling.py defines them.

#pragma once

#include <cstdint>

#include "elementary.h"

namespace dragoman {

// The sampling options of one row: temperature above 0; `top_k` 0 and `top_p` 1 disable them; `noise` is the row's state.
struct Sampling {
  float temperature, top_p;
  int64_t top_k;
  uint64_t noise;
};

// Samples a token from logits [width]; the largest is at `best`.
int64_t sample(const float* logits, int64_t width, int64_t best, const Sampling& options);

// A token and its log-probability.
struct Choice {
  int64_t token;
  float logprob;
};

// Samples a token from logits [width]; the best one where the temperature is 0.
Choice choose(const float* logits, int64_t width, const Sampling& options);

namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // of SplitMix64, as the constants below

inline uint64_t noise_bits(uint64_t state, int64_t token) {
  uint64_t bits = state + (static_cast<uint64_t>(token) + 1) * kGolden;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

// The state of a request with this seed at a position: `noise_states` of model/sampling.py.
inline uint64_t noise_state(uint64_t seed, int64_t position) { return noise_bits(noise_bits(seed, 0), position); }

inline float gumbel(uint64_t bits) {
  const double uniform = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  return static_cast<float>(-logarithm(-logarithm(uniform)));
}

// A weight, e^score and at most 1, in units of 2^-40: their sums are exact in any order.
inline int64_t fixed_point(float weight) { return static_cast<int64_t>(static_cast<double>(weight) * 0x1p40); }

// The best of noisy scores. Few tokens can be that, and only theirs need logarithms: those of a uniform number u and a
// score s with 1 - u < e^(s - best), since -ln(-ln u) < -ln(1 - u).
struct Draw {
  int64_t token;
  float best, bar;

  Draw(int64_t first, float score, uint64_t bits) : token(first) { become(score + gumbel(bits)); }

  // How far u is from 1, in units of 2^-24, rounded down.
  static int32_t distance(uint64_t bits) { return static_cast<int32_t>(~bits >> 40); }

  // `weight` is e^score.
  bool is_hopeless(int32_t distance, float weight) const { return static_cast<float>(distance) * bar > weight; }

  void push(int64_t other, float score, uint64_t bits) {
    const float noisy = score + gumbel(bits);
    if (!(noisy > best || (noisy == best && other < token))) return;
    token = other;
    become(noisy);
  }

 private:
  // The bar is a little lower than it could be: for the rounding of all these.
  void become(float noisy) {
    best = noisy;
    bar = static_cast<float>(0x1p-24 * 0.999 * std::exp(static_cast<double>(noisy)));
  }
};

}  // namespace
}  // namespace dragoman
