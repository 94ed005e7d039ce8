// Exact products with AVX2 without VNNI; a part of products_avx2.h.
//
// AVX2 has one instruction for bytes. It multiplies numbers without a sign by numbers with a sign, and adds the two
// products of each pair in 16 bits. Weights get 128 added, so that they have no sign. Two rules keep the sums exact:
//
// - The positive activations of a pair add up to at most 128, and so do the negative ones: 255 * 128 < 2^15.
// - The four activations whose products are added in 16 bits have magnitudes of at most 258 together. Then their true
//   sum fits, since 127 * 258 < 2^15. On the way the sum may overflow: 128 times the activations is subtracted again,
//   and sums modulo 2^16 lose nothing by it.
//
// `arrange` makes a row obey the rules: it lowers some activations, in about one group of twelve, and lists what it took
// away from them. The list is multiplied separately.
//
// The bytes of a row: activations [groups][kGroup]; for each two groups, -128 times the sum of their activations 0 and 1,
// and of their activations 2 and 3, in 16 bits each; the length of the list, in 32 bits; the list.

#define SPLITS_ROWS
constexpr int64_t kMostTenths = 9;
constexpr uint8_t kZeroPoint = 0;

inline int64_t row_bytes(int64_t groups) {
  const int64_t list = sizeof(int32_t) + groups * sizeof(Listed);
  return (groups * kGroup + groups / 2 * sizeof(int32_t) + list + 63) / 64 * 64;
}

inline const uint8_t* list_of(const uint8_t* q, int64_t groups) {
  return q + groups * kGroup + groups / 2 * sizeof(int32_t);
}

constexpr int kMostPair = 128, kMostFour = 258;

inline int magnitude(int x) { return x < 0 ? -x : x; }

// Lowers the magnitude of x by `excess`.
inline int8_t lowered(int8_t x, int excess) { return static_cast<int8_t>(x < 0 ? x + excess : x - excess); }

// Makes two groups obey the rules, and lists what it takes away; returns the end of the list.
inline Listed* arrange_two(int8_t* two, int32_t group, uint8_t* corrections, Listed* list) {
  int8_t old[2 * kGroup];
  std::memcpy(old, two, sizeof old);
  for (int lane = 0; lane < kGroup; lane += 2) {
    int total = 0;
    for (int8_t* pair : {two + lane, two + kGroup + lane}) {
      const int excess = magnitude(pair[0] + pair[1]) - kMostPair;
      // Both have the same sign then, and neither is smaller than the excess.
      if (excess > 0) pair[0] = lowered(pair[0], excess);
      total += magnitude(pair[0]) + magnitude(pair[1]);
    }
    for (int8_t* last = two + kGroup + lane; total > kMostFour; ++last) {
      const int excess = total - kMostFour < magnitude(*last) ? total - kMostFour : magnitude(*last);
      *last = lowered(*last, excess);
      total -= excess;
    }
    const auto correction = static_cast<int16_t>(-128 * (two[lane] + two[lane + 1] + two[lane + 4] + two[lane + 5]));
    std::memcpy(corrections + lane, &correction, sizeof correction);
  }
  for (int n = 0; n < 2; ++n) {
    int8_t rest[kGroup];
    for (int i = 0; i < kGroup; ++i) rest[i] = static_cast<int8_t>(old[n * kGroup + i] - two[n * kGroup + i]);
    list->group = group + n;
    std::memcpy(&list->four, rest, sizeof rest);
    list += list->four != 0;
  }
  return list;
}

// Completes a row, of which the activations are there.
inline void arrange(uint8_t* q, int64_t groups) {
  auto* activations = reinterpret_cast<int8_t*>(q);
  uint8_t* corrections = q + groups * kGroup;
  auto* const list = reinterpret_cast<Listed*>(corrections + groups / 2 * sizeof(int32_t) + sizeof(int32_t));
  Listed* end = list;
  const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi8(1);
  for (int64_t g = 0; g < groups; g += 8) {
    // At the end, zeros instead of what follows.
    __m256i some;
    if (g + 8 <= groups) {
      some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(activations + g * kGroup));
    } else {
      int8_t rest[32] = {};
      std::memcpy(rest, activations + g * kGroup, (groups - g) * kGroup);
      std::memcpy(&some, rest, sizeof some);
    }
    const __m256i positive = _mm256_maddubs_epi16(_mm256_max_epi8(some, zero), ones);
    const __m256i negative = _mm256_maddubs_epi16(_mm256_sub_epi8(zero, _mm256_min_epi8(some, zero)), ones);
    const __m256i both = _mm256_add_epi16(positive, negative);
    const __m256i four = _mm256_add_epi16(both, _mm256_shuffle_epi32(both, 0xB1));
    const __m256i wrong = _mm256_or_si256(
        _mm256_cmpgt_epi16(_mm256_max_epi16(positive, negative), _mm256_set1_epi16(kMostPair)),
        _mm256_cmpgt_epi16(four, _mm256_set1_epi16(kMostFour)));
    const __m256i sum = _mm256_sub_epi16(positive, negative);
    const __m256i correction = _mm256_sub_epi16(
        zero, _mm256_slli_epi16(_mm256_add_epi16(sum, _mm256_shuffle_epi32(sum, 0xB1)), 7));
    const __m128i four_corrections = _mm256_castsi256_si128(
        _mm256_permutevar8x32_epi32(correction, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
    uint8_t* to = corrections + g / 2 * sizeof(int32_t);
    std::memcpy(to, &four_corrections, (groups - g < 8 ? (groups - g) / 2 : 4) * sizeof(int32_t));
    for (unsigned bits = _mm256_movemask_epi8(wrong), n; bits; bits &= ~(0xFFu << 8 * n)) {
      n = __builtin_ctz(bits) / 8;
      end = arrange_two(activations + (g + 2 * n) * kGroup, g + 2 * n, to + n * sizeof(int32_t), end);
    }
  }
  const int32_t count = end - list;
  std::memcpy(reinterpret_cast<uint8_t*>(list) - sizeof count, &count, sizeof count);
}

inline __m256i widened(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

// Activations of two groups of one row, each group in all places of a register, and their correction.
struct Two {
  __m256i first, second, correction;
};

inline Two two_of(const uint8_t* q, int64_t groups, int64_t group) {
  return {_mm256_set1_epi32(four_at(q + group * kGroup)), _mm256_set1_epi32(four_at(q + (group + 1) * kGroup)),
          _mm256_set1_epi32(four_at(q + groups * kGroup + group / 2 * sizeof(int32_t)))};
}

inline __m256i factors_of(const int8_t* weights) {
  return _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights)), _mm256_set1_epi8(-128));
}

inline __m256i add_two(__m256i sums, const Two& activations, __m256i first, __m256i second) {
  const __m256i one = _mm256_add_epi16(activations.correction, _mm256_maddubs_epi16(first, activations.first));
  return _mm256_add_epi32(sums, widened(_mm256_add_epi16(one, _mm256_maddubs_epi16(second, activations.second))));
}

// The products of two groups with activations that are not negative and obey the rule for pairs, and with weights as
// they are, fit in 16 bits (2 * 128 * 127 < 32768).
inline __m256i add_positive(__m256i sums, __m256i a, __m256i b, __m256i first, __m256i second) {
  return _mm256_add_epi32(sums, widened(_mm256_add_epi16(_mm256_maddubs_epi16(a, first), _mm256_maddubs_epi16(b, second))));
}

// Adds the products of a row's list to `sums` [kBlock].
inline void add_rest(const int8_t* weight, const uint8_t* q, int64_t groups, int32_t* sums) {
  const uint8_t* list = list_of(q, groups);
  const int32_t count = four_at(list);
  if (!count) return;
  list += sizeof(int32_t);
  auto* to = reinterpret_cast<__m256i*>(sums);
  __m256i some[8];
  UNROLL
  for (int i = 0; i < 8; ++i) some[i] = _mm256_loadu_si256(to + i);
  for (int32_t n = 0; n < count; ++n, list += sizeof(Listed)) {
    const __m256i activations = _mm256_set1_epi32(four_at(list + 4)), without_sign = _mm256_abs_epi8(activations);
    const auto* w = reinterpret_cast<const __m256i*>(weight + int64_t{four_at(list)} * kBlock * kGroup);
    UNROLL
    for (int i = 0; i < 8; ++i)
      some[i] = _mm256_add_epi32(some[i], widened(_mm256_maddubs_epi16(
                                              without_sign, _mm256_sign_epi8(_mm256_loadu_si256(w + i), activations))));
  }
  UNROLL
  for (int i = 0; i < 8; ++i) _mm256_storeu_si256(to + i, some[i]);
}

// The product of a row's list with a row of weights.
inline int32_t dot_rest(const uint8_t* q, const int8_t* weight, int64_t groups) {
  const uint8_t* list = list_of(q, groups);
  int32_t sum = 0;
  for (int32_t count = four_at(list); count > 0; --count, list += sizeof(Listed)) {
    Listed each;
    std::memcpy(&each, list + sizeof(int32_t), sizeof each);
    int8_t rest[kGroup];
    std::memcpy(rest, &each.four, sizeof rest);
    for (int i = 0; i < kGroup; ++i) sum += rest[i] * weight[each.group * kGroup + i];
  }
  return sum;
}
