// Functions of single numbers that have the same bits on every processor: no C library's, which have variants too. A
// part of each file that includes it, compiled for the processors that it is for.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace dragoman {
namespace {

inline float larger(float a, float b) { return a > b ? a : b; }

// Clamps x to 0 and 1; NaN becomes 0.
inline float share(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }

// The integer next to x, of two the even one, in the low bits; for sizes below 2^22, and arbitrary bits for all else: a
// cast of NaN has no defined result.
inline uint32_t rounded_bits(float x) {
  const float shifted = x + 0x1.8p23f;
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  return bits;
}

// e^x for x <= 0: the Taylor polynomial on [-ln2/2, ln2/2] times a power of two; relative error below 2.5e-7. Unlike
// std::exp the compiler can vectorise it.
inline float exp_of_negative(float x) {
  x = larger(-80.0f, x);  // nothing becomes a denormal number, which processors are slow at; NaN stays
  const uint32_t whole = rounded_bits(x * 1.44269504f);
  float n;
  std::memcpy(&n, &whole, sizeof n);
  n -= 0x1.8p23f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t bits = (whole + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

// erf(x), wrong by less than 4e-7 (Abramowitz and Stegun 1964, 7.1.26).
inline float error_function(float x) {
  const float size = std::fabs(x), t = 1.0f / (1.0f + 0.3275911f * size);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  return std::copysign(1.0f - p * t * exp_of_negative(-size * size), x);
}

// ln(x) for x from the smallest normal number on: with x = m 2^k and m about 1, k ln2 + 2 artanh((m - 1) / (m + 1)) by
// its series; relative error below 1e-15.
inline double logarithm(double x) {
  if (!(x < INFINITY)) return x;  // NaN stays, too
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const uint64_t above = bits - 0x3FE6A09E667F3BCDu;  // sqrt(1/2): how far x is above it
  const int64_t k = static_cast<int64_t>(above) >> 52;
  bits -= static_cast<uint64_t>(k) << 52;
  double m;
  std::memcpy(&m, &bits, sizeof m);
  const double f = (m - 1) / (m + 1), square = f * f;
  double sum = 0;
  for (int term = 21; term > 0; term -= 2) sum = sum * square + 1.0 / term;
  return k * 0.693147180559945309 + 2 * f * sum;
}

}  // namespace
}  // namespace dragoman
