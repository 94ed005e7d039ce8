// Exact products with AVX2 without VNNI; included by products_avx2.h, inside of the namespace.
//
// AVX2 has one instruction for bytes, `maddubs`. It multiplies unsigned bytes by signed bytes, adds the two products of a
// pair, and cuts the sum off at 16 bits. So 128 is added to each weight, which makes it unsigned, and two rules hold:
//
// - No pair may be cut off: its positive activations add up to at most 128, and so do its negative ones
//   (255 * 128 < 2^15).
// - The sums of two pairs are added in 16 bits. That sum, with the raised weights, may overflow. Additions go round
//   modulo 2^16, so subtracting 128 times the activations still leaves the exact sum if that fits: the magnitudes of the
//   four activations add up to at most 258 (127 * 258 < 2^15).
//
// `arrange` makes a row obey the rules: it lowers some activations and lists the differences. The list is
// multiplied separately. Of normally distributed activations that is one group of 14 (width 256) to 40 (2,048).
//
// The bytes of a row: activations [groups][kGroup]; for each pair of groups two corrections of 16 bits, -128 times the sum
// of their four activations in places 0 and 1, then of those in places 2 and 3; the length of the list, in 32 bits; the
// list.

#define SPLITS_ROWS
constexpr int64_t kMostTenths = 9;
constexpr uint8_t kZeroPoint = 0;

inline int64_t row_bytes(int64_t groups) {
  const int64_t list = sizeof(int32_t) + groups * sizeof(Listed);  // at most all groups are listed
  return (groups * kGroup + groups / 2 * sizeof(int32_t) + list + 63) / 64 * 64;
}

// The length of a row's list, behind which the list is.
inline int64_t list_place(int64_t groups) { return groups * kGroup + groups / 2 * sizeof(int32_t); }

inline Listed listed_at(const uint8_t* q, int64_t groups, int64_t number) {
  Listed listed;
  std::memcpy(&listed, q + list_place(groups) + sizeof(int32_t) + number * sizeof listed, sizeof listed);
  return listed;
}

constexpr int kMostPair = 128, kMostFour = 258;

inline int magnitude(int x) { return x < 0 ? -x : x; }

// Lowers the magnitude of x by `excess`.
inline int8_t lowered(int8_t x, int excess) { return static_cast<int8_t>(x < 0 ? x + excess : x - excess); }

// Makes two groups obey the rules, and lists the differences; returns the new end of the list.
inline uint8_t* arrange_two(int8_t* two, int32_t group, uint8_t* corrections, uint8_t* end) {
  int8_t old[2 * kGroup];
  std::memcpy(old, two, sizeof old);
  for (int lane = 0; lane < kGroup; lane += 2) {
    int total = 0;
    for (int8_t* pair : {two + lane, two + kGroup + lane}) {
      const int excess = magnitude(pair[0] + pair[1]) - kMostPair;
      // Both have the same sign then, and neither has a smaller magnitude than the excess.
      if (excess > 0) pair[0] = lowered(pair[0], excess);
      total += magnitude(pair[0]) + magnitude(pair[1]);
    }
    // The second group gives up the rest. It has enough: the first has at most 255.
    for (int8_t* next = two + kGroup + lane; total > kMostFour; ++next) {
      const int excess = total - kMostFour < magnitude(*next) ? total - kMostFour : magnitude(*next);
      *next = lowered(*next, excess);
      total -= excess;
    }
    const auto correction = static_cast<int16_t>(-128 * (two[lane] + two[lane + 1] + two[lane + 4] + two[lane + 5]));
    std::memcpy(corrections + lane / 2 * sizeof correction, &correction, sizeof correction);
  }
  for (int n = 0; n < 2; ++n) {
    int8_t rest[kGroup];
    for (int i = 0; i < kGroup; ++i) rest[i] = static_cast<int8_t>(old[n * kGroup + i] - two[n * kGroup + i]);
    Listed listed{group + n, 0};
    std::memcpy(&listed.four, rest, sizeof rest);
    if (listed.four == 0) continue;
    std::memcpy(end, &listed, sizeof listed);
    end += sizeof listed;
  }
  return end;
}

// Adds corrections and list to a row whose activations are already written.
inline void arrange(uint8_t* q, int64_t groups) {
  auto* activations = reinterpret_cast<int8_t*>(q);
  uint8_t* corrections = q + groups * kGroup;
  uint8_t *const list = q + list_place(groups) + sizeof(int32_t), *end = list;
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
    const unsigned bits = _mm256_movemask_epi8(wrong);
    for (int n = 0; bits && n < 4; ++n)
      if (bits >> 8 * n & 0xFF)
        end = arrange_two(activations + (g + 2 * n) * kGroup, g + 2 * n, to + n * sizeof(int32_t), end);
  }
  const int32_t count = (end - list) / sizeof(Listed);
  std::memcpy(q + list_place(groups), &count, sizeof count);
}

inline __m256i widened(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

// Activations of two groups of one row, each group repeated through a register, and their correction.
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
  const int32_t count = four_at(q + list_place(groups));
  if (!count) return;
  auto* to = reinterpret_cast<__m256i*>(sums);
  __m256i some[8];
  UNROLL
  for (int i = 0; i < 8; ++i) some[i] = _mm256_loadu_si256(to + i);
  for (int32_t n = 0; n < count; ++n) {
    const Listed listed = listed_at(q, groups, n);
    const __m256i activations = _mm256_set1_epi32(listed.four), without_sign = _mm256_abs_epi8(activations);
    const auto* w = reinterpret_cast<const __m256i*>(weight + listed.group * kBlock * kGroup);
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
  const int32_t count = four_at(q + list_place(groups));
  int32_t sum = 0;
  for (int32_t n = 0; n < count; ++n) {
    const Listed listed = listed_at(q, groups, n);
    int8_t rest[kGroup];
    std::memcpy(rest, &listed.four, sizeof rest);
    for (int i = 0; i < kGroup; ++i) sum += rest[i] * weight[listed.group * kGroup + i];
  }
  return sum;
}
