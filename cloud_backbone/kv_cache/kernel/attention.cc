// SPDX-License-Identifier: Apache-2.0
// Attention over pages that stay compressed: a few slots at a time become floats, are used for all
// query rows, and are forgotten. Knows no masks, no softmax and no policy; keeps nothing between
// calls. Compiled once for each kind of processor; therefore nothing here is seen from outside but
// the two functions at the end, and no inline function of a library is used, since the linker
// would take it from any of the objects.
#include "attention.h"

#include "grouped_pages.h"
#include "oaken_pages.h"
#include "plain_pages.h"

namespace {

constexpr int kMixed = 4;  // vectors of a mixture that are summed side by side

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

// Slots of the tile of kLanes slots that begins at a slot of a block.
inline int tile(const Call& call, int first) {
  return call.slots - first < kLanes ? int(call.slots) - first : kLanes;
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

// Scores of one block: queries (rows, kStride), bases (rows) to be added.
template <class Reader>
inline void score_block(const Reader& reader, const Call& call, int64_t head, int64_t block,
                        float* keys, const float* queries, const float* bases) {
  const int64_t slots = call.blocks * call.slots;
  for (int first = 0; first < call.slots; first += kLanes) {
    const int count = tile(call, first), head_dim = int(call.head_dim);
    prefetch(call, head, block, first, count);
    for (int s = 0; s < count; ++s) reader.key(first + s, keys + s * kStride);
    float* scores = call.output + head * call.rows * slots + block * call.slots + first;
    for (int64_t r = 0; r < call.rows; ++r) {
      const Floats dots = dot_each(keys, queries + r * kStride, head_dim) + bases[r];
      if (count == kLanes)
        store(scores + r * slots, dots);
      else
        std::memcpy(scores + r * slots, &dots, 4 * count);
    }
  }
}

template <class Reader>
int64_t key_scores(const Call& call) {
  const int64_t rows = call.rows, head_dim = call.head_dim;
  Reader reader(call);
  const Zeros<float> keys(kLanes * kStride), queries(rows * kStride), bases(rows);
  if (!reader.ready() || !keys || !queries || !bases) return -1;
  for (int64_t head = 0; head < call.kv_heads; ++head) {
    const float* query = call.input + head * rows * head_dim;
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(queries + r * kStride, query + r * head_dim, 4 * head_dim);
    for (int64_t block = 0; block < call.blocks; ++block) {
      reader.open_keys(page_of(call, head, block), head);
      for (int64_t r = 0; r < rows; ++r)
        bases[r] = reader.fold_into(query + r * head_dim, queries + r * kStride);
      score_block(reader, call, head, block, keys, queries, bases);
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
template <class Reader>
inline void mix_block(const Reader& reader, const Call& call, int64_t head, int64_t block,
                      float* values, float* mixtures) {
  const int64_t slots = call.blocks * call.slots;
  for (int first = 0; first < call.slots; first += kLanes) {
    const int count = tile(call, first), head_dim = int(call.head_dim);
    const float* weights = call.input + head * call.rows * slots + block * call.slots + first;
    prefetch(call, head, block, first, count);
    const Ints alive = has_weight(weights, slots, call.rows, count);
    for (int s = 0; s < count; ++s) {
      // A slot without weight may hold anything, NaN included; zero times that is not zero.
      if (alive[s])
        reader.value(first + s, values + s * kStride);
      else
        std::memset(values + s * kStride, 0, 4 * head_dim);
    }
    for (int64_t r = 0; r < call.rows; ++r) {
      float* mixture = mixtures + r * kStride;
      int c = 0;
      for (; c + kMixed * kLanes <= head_dim; c += kMixed * kLanes)
        mix<kMixed>(values + c, weights + r * slots, count, mixture + c);
      for (; c < head_dim; c += kLanes)
        mix<1>(values + c, weights + r * slots, count, mixture + c);
    }
  }
}

template <class Reader>
int64_t value_mix(const Call& call) {
  const int64_t rows = call.rows, head_dim = call.head_dim;
  Reader reader(call);
  const Zeros<float> values(kLanes * kStride), mixtures(rows * kStride);
  if (!reader.ready() || !values || !mixtures) return -1;
  for (int64_t head = 0; head < call.kv_heads; ++head) {
    std::memset(mixtures, 0, 4 * rows * kStride);
    for (int64_t block = 0; block < call.blocks; ++block) {
      reader.open_values(page_of(call, head, block), head);
      mix_block(reader, call, head, block, values, mixtures);
    }
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(call.output + (head * rows + r) * head_dim, mixtures + r * kStride,
                  4 * head_dim);
  }
  return 0;
}

}  // namespace

// The order is that of LAYOUTS in compiled_kernel.py.
#define TENDON_LOOP(what, lanes) TENDON_LOOP_(what, lanes)
#define TENDON_LOOP_(what, lanes)                       \
  int64_t what##_##lanes(const Call& call) {            \
    switch (call.layout) {                              \
      case 0: return what<FloatReader>(call);           \
      case 1: return what<HalfReader<Binary16>>(call);  \
      case 2: return what<HalfReader<Brain>>(call);     \
      case 3: return what<Int8Reader>(call);            \
      case 4: return what<GroupedReader<4>>(call);      \
      case 5: return what<GroupedReader<2>>(call);      \
      default: return what<OakenReader>(call);          \
    }                                                   \
  }
TENDON_LOOP(key_scores, TENDON_LANES)
TENDON_LOOP(value_mix, TENDON_LANES)
