// Products with AVX-512 VNNI, and with AMX where there is that, too; included by products.h, inside of the namespace.

constexpr int kMostRows = 6;
// Few rows wait for their weights, which the processor by itself does not fetch early enough.
constexpr int64_t kBytesAhead = 8192;
constexpr uint8_t kZeroPoint = 128;

template <int Rows>
inline void multiply(const int8_t* weight, const uint8_t* q, int64_t stride, int64_t groups, int32_t* tile) {
  __m512i sums[Rows][4];
  UNROLL
  for (int r = 0; r < Rows; ++r)
    UNROLL
    for (int i = 0; i < 4; ++i) sums[r][i] = _mm512_setzero_si512();
  for (int64_t g = 0; g < groups; ++g) {
    const int8_t* w = weight + g * kBlock * kGroup;
    UNROLL
    for (int i = 0; i < 4; ++i) __builtin_prefetch(w + kBytesAhead + 64 * i);
    __m512i weights[4] = {_mm512_loadu_si512(w), _mm512_loadu_si512(w + 64), _mm512_loadu_si512(w + 128),
                          _mm512_loadu_si512(w + 192)};
    UNROLL
    for (int i = 0; i < 4; ++i) __asm__("" : "+v"(weights[i]));  // GCC would load them again for each row of 2 or 3
    UNROLL
    for (int r = 0; r < Rows; ++r) {
      const __m512i activations = _mm512_set1_epi32(four_at(q + r * stride + g * kGroup));
      UNROLL
      for (int i = 0; i < 4; ++i) sums[r][i] = _mm512_dpbusd_epi32(sums[r][i], activations, weights[i]);
    }
  }
  UNROLL
  for (int r = 0; r < Rows; ++r)
    UNROLL
    for (int i = 0; i < 4; ++i) _mm512_storeu_si512(tile + r * kBlock + i * 16, sums[r][i]);
}

#if defined(__AMX_INT8__)

// Matrix registers ("tiles") of 16 rows: 64 bytes of q each, four groups of weights for 16 outputs, or 16 sums. They need
// whole 64 bytes of a row, and pay from `kFewestTileRows` rows on.
constexpr int64_t kTileRows = 16, kTileGroups = 16, kFewestTileRows = 8;

// The tiles of a thread, set up for as long as this lives, for 16 rows at a time or the last `rest`.
class Tiles {
 public:
  explicit Tiles(int64_t rest) {
    struct {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    static_assert(sizeof config == 64);
    for (int tile = 0; tile < 8; ++tile) {
      config.bytes[tile] = 64;
      config.rows[tile] = tile < 6 || rest == 0 ? kTileRows : rest;
    }
    __asm__ volatile("" : : "r"(&config) : "memory");  // GCC believes that the next line reads 8 bytes
    _tile_loadconfig(&config);
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() { _tile_release(); }

  // The exact products of 16 rows with a block of weights: products[row][output].
  void multiply(const int8_t* weight, const uint8_t* q, int64_t stride, int64_t groups, int32_t* products) const {
    constexpr int64_t kRow = kBlock * kGroup, kColumn = 16 * kGroup;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t g = 0; g < groups; g += kTileGroups) {
      const int8_t* w = weight + g * kRow;
      _tile_loadd(4, q + g * kGroup, stride);
      _tile_loadd(5, w, kRow);
      _tile_dpbusd(0, 4, 5);
      _tile_loadd(5, w + kColumn, kRow);
      _tile_dpbusd(1, 4, 5);
      _tile_loadd(5, w + 2 * kColumn, kRow);
      _tile_dpbusd(2, 4, 5);
      _tile_loadd(5, w + 3 * kColumn, kRow);
      _tile_dpbusd(3, 4, 5);
    }
    constexpr int64_t kProducts = kBlock * sizeof(int32_t);
    _tile_stored(0, products, kProducts);
    _tile_stored(1, products + 16, kProducts);
    _tile_stored(2, products + 32, kProducts);
    _tile_stored(3, products + 48, kProducts);
  }

  // The same for the last rows.
  void multiply_rest(const int8_t* weight, const uint8_t* q, int64_t stride, int64_t groups, int32_t* products) const {
    for (int64_t column = 0; column < kBlock; column += 16) {
      _tile_zero(7);
      for (int64_t g = 0; g < groups; g += kTileGroups) {
        _tile_loadd(6, q + g * kGroup, stride);
        _tile_loadd(5, weight + (g * kBlock + column) * kGroup, kBlock * kGroup);
        _tile_dpbusd(7, 6, 5);
      }
      _tile_stored(7, products + column, kBlock * sizeof(int32_t));
    }
  }
};

#endif
