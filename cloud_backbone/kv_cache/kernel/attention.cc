// SPDX-License-Identifier: Apache-2.0
// Attention over pages that stay compressed: a few slots at a time become floats, are used for all
// query rows, and are forgotten. Knows no masks, no softmax and no policy; keeps nothing between
// calls. Compiled once for each kind of processor; therefore nothing here is seen from outside but
// the two functions at the end, and no inline function of a library is used, since the linker
// would take it from any of the objects.
#include "attention.h"

#include <cstdlib>

#include "pages.h"

namespace {

constexpr int kMixed = 4;  // vectors of a mixture that are summed side by side

// Zeros, aligned for vectors.
class Zeros {
 public:
  explicit Zeros(int64_t count) {
    if (posix_memalign(&memory_, 64, 4 * (count + 1))) memory_ = nullptr;
    if (memory_) std::memset(memory_, 0, 4 * count);
  }
  ~Zeros() { std::free(memory_); }
  Zeros(const Zeros&) = delete;
  operator float*() const { return (float*)memory_; }

 private:
  void* memory_ = nullptr;
};

inline const uint8_t* page_of(const Call& call, int64_t head, int64_t block) {
  return call.arena + call.table[head * call.table_stride + block] * call.page_bytes;
}

// Ask for as much of the next block's page as is about to be used of this one. Inlined by force,
// for GCC takes a function that only asks for one that does nothing.
__attribute__((always_inline)) inline void prefetch(const Call& call, int64_t head, int64_t block,
                                                    int first, int count) {
  if (block + 1 >= call.blocks) return;
  const uint8_t* page = page_of(call, head, block + 1);
  const int64_t end = call.page_bytes * (first + count) / call.slots;
  for (int64_t line = call.page_bytes * first / call.slots; line < end; line += 64)
    __builtin_prefetch(page + line);
}

// Dot products of one query with kLanes decoded slots.
inline Floats dot_each(const float* keys, const float* query, int head_dim) {
  Floats sums[kLanes] = {};
  for (int c = 0; c < head_dim; c += kLanes) {
    const Floats part = load<Floats>(query + c);
#pragma GCC unroll 16
    for (int s = 0; s < kLanes; ++s) sums[s] += part * load<Floats>(keys + s * kStride + c);
  }
  return sum_each(sums);
}

// Scores of one block: queries (rows, kStride), bases (rows) to be added, scores slots apart.
template <class Format>
inline void score_block(Format format, const Call& call, const Shape& shape, int64_t head,
                        int64_t block, float* keys, const float* queries, const float* bases) {
  const uint8_t* page = page_of(call, head, block);
  const int64_t slots = call.blocks * shape.slots;
  for (int first = 0; first < shape.slots; first += kLanes) {
    const int count = shape.slots - first < kLanes ? shape.slots - first : kLanes;
    prefetch(call, head, block, first, count);
    for (int s = 0; s < count; ++s) decode_key(format, page, shape, first + s, keys + s * kStride);
    float* scores = call.output + head * call.rows * slots + block * shape.slots + first;
    for (int64_t r = 0; r < call.rows; ++r) {
      const Floats dots = dot_each(keys, queries + r * kStride, shape.head_dim) + bases[r];
      if (count == kLanes)
        store(scores + r * slots, dots);
      else
        std::memcpy(scores + r * slots, &dots, 4 * count);
    }
  }
}

template <class Format>
int64_t key_scores(Format format, const Call& call, const Shape& shape) {
  const int64_t rows = call.rows;
  const Zeros keys(kLanes * kStride), queries(rows * kStride), bases(rows);
  if (!keys || !queries || !bases) return -1;
  for (int64_t head = 0; head < call.kv_heads; ++head) {
    const float* query = call.input + head * rows * shape.head_dim;
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(queries + r * kStride, query + r * shape.head_dim, 4 * shape.head_dim);
    for (int64_t block = 0; block < call.blocks; ++block) {
      const uint8_t* page = page_of(call, head, block);
      for (int64_t r = 0; r < rows; ++r)
        bases[r] = prepare_query(format, page, shape, query + r * shape.head_dim,
                                 queries + r * kStride);
      score_block(format, call, shape, head, block, keys, queries, bases);
    }
  }
  return 0;
}

// Add N vectors of the slots' weighted values to one row.
template <int N>
inline void mix(const float* values, const float* weights, int count, float* mixture) {
  Floats sums[N];
  for (int i = 0; i < N; ++i) sums[i] = load<Floats>(mixture + i * kLanes);
#pragma GCC unroll 1
  for (int s = 0; s < count; ++s)
    for (int i = 0; i < N; ++i)
      sums[i] += weights[s] * load<Floats>(values + s * kStride + i * kLanes);
  for (int i = 0; i < N; ++i) store(mixture + i * kLanes, sums[i]);
}

// Say of each slot whether any row gives it weight.
inline Ints has_weight(const float* weights, int64_t slots, int64_t rows, int count) {
  Ints found = {};
  for (int64_t r = 0; r < rows; ++r) {
    if (count == kLanes)
      found |= load<Floats>(weights + r * slots) != 0;
    else
      for (int s = 0; s < count; ++s) found[s] |= weights[r * slots + s] != 0;
  }
  return found;
}

// Add one block to the mixtures (rows, kStride).
template <class Format>
inline void mix_block(Format format, const Call& call, const Shape& shape, int64_t head,
                      int64_t block, const float* scales, float* values, float* mixtures) {
  const uint8_t* page = page_of(call, head, block);
  const int64_t slots = call.blocks * shape.slots;
  for (int first = 0; first < shape.slots; first += kLanes) {
    const int count = shape.slots - first < kLanes ? shape.slots - first : kLanes;
    const float* weights = call.input + head * call.rows * slots + block * shape.slots + first;
    prefetch(call, head, block, first, count);
    const Ints alive = has_weight(weights, slots, call.rows, count);
    for (int s = 0; s < count; ++s) {
      // A slot without weight may hold anything, NaN included; zero times that is not zero.
      if (alive[s])
        decode_value(format, page, shape, first + s, scales, values + s * kStride);
      else
        std::memset(values + s * kStride, 0, 4 * shape.head_dim);
    }
    for (int64_t r = 0; r < call.rows; ++r) {
      float* mixture = mixtures + r * kStride;
      int c = 0;
      for (; c + kMixed * kLanes <= shape.head_dim; c += kMixed * kLanes)
        mix<kMixed>(values + c, weights + r * slots, count, mixture + c);
      for (; c < shape.head_dim; c += kLanes)
        mix<1>(values + c, weights + r * slots, count, mixture + c);
    }
  }
}

template <class Format>
int64_t value_mix(Format format, const Call& call, const Shape& shape) {
  const int64_t rows = call.rows;
  const Zeros values(kLanes * kStride), mixtures(rows * kStride);
  const Zeros scales(2 * shape.slots * shape.head_dim / shape.span);
  if (!values || !mixtures || !scales) return -1;
  for (int64_t head = 0; head < call.kv_heads; ++head) {
    std::memset(mixtures, 0, 4 * rows * kStride);
    for (int64_t block = 0; block < call.blocks; ++block) {
      read_scales(format, page_of(call, head, block), shape, scales);
      mix_block(format, call, shape, head, block, scales, values, mixtures);
    }
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(call.output + (head * rows + r) * shape.head_dim, mixtures + r * kStride,
                  4 * shape.head_dim);
  }
  return 0;
}

inline Shape shape_of(const Call& call) {
  return {int(call.slots), int(call.head_dim), int(call.span)};
}

}  // namespace

// The order is that of LAYOUTS in compiled_kernel.py.
#define TENDON_LOOP(what, lanes) TENDON_LOOP_(what, lanes)
#define TENDON_LOOP_(what, lanes)                                           \
  int64_t what##_##lanes(const Call& call) {                                \
    const Shape shape = shape_of(call);                                     \
    switch (call.layout) {                                                  \
      case 0: return what(RawFloat(), call, shape);                         \
      case 1: return what(RawHalf<Binary16>(), call, shape);                \
      case 2: return what(RawHalf<Brain>(), call, shape);                   \
      case 3: return what(Int8(), call, shape);                             \
      case 4: return what(Grouped<4>(), call, shape);                       \
      default: return what(Grouped<2>(), call, shape);                      \
    }                                                                       \
  }
#define TENDON_LOOPS(lanes) TENDON_LOOP(key_scores, lanes) TENDON_LOOP(value_mix, lanes)
TENDON_LOOPS(TENDON_LANES)
