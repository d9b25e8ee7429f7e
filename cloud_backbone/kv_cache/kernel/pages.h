// SPDX-License-Identifier: Apache-2.0
// The formats of pages: a slot of a page becomes floats. Knows neither queries nor weights.
//
//   raw                T[slots, head_dim], T = float, binary16 or brain float
//   int8               int8[slots, head_dim] | binary16 scale[slots]
//   grouped b, keys    uint8 codes[slots, head_dim*b/8] | binary16 scale[head_dim] | minimum alike
//   grouped b, values  codes alike | binary16 scale[slots, head_dim/span] | minimum alike
//
// Codes are planar: with P = 8/b codes a byte, byte j holds the channels j + p*head_dim/P, p = 0
// in the lowest bits. So kLanes bytes give kLanes neighbouring channels of each plane, in order.
// Only head_dim floats of a row are written; what pads it to whole vectors stays zero.
#pragma once

#include "lanes.h"

namespace {

struct Shape {
  int slots;
  int head_dim;
  int span;  // channels that share a scale in a grouped page of values
};

constexpr int kLongestHead = 512;
// Floats from one decoded row to the next: known to the compiler, and no power of two, which would
// put all rows into the same few lines of the processor's cache.
constexpr int kStride = kLongestHead + 16;

struct RawFloat {};
template <class Half>
struct RawHalf {};
struct Int8 {};
template <int bits>
struct Grouped {};

inline const uint16_t* halves(const uint8_t* at) { return (const uint16_t*)at; }

inline float binary16(const uint8_t* from, int64_t index) {
  return to_float(Binary16(), load<uint16_t>(from + 2 * index));
}

inline void decode(RawFloat, const uint8_t* page, const Shape& shape, int slot, float* row) {
  std::memcpy(row, page + 4LL * slot * shape.head_dim, 4LL * shape.head_dim);
}

template <class Half>
inline void decode(RawHalf<Half>, const uint8_t* page, const Shape& shape, int slot, float* row) {
  const uint16_t* from = (const uint16_t*)page + 1LL * slot * shape.head_dim;
  int c = 0;
  for (; c + kLanes <= shape.head_dim; c += kLanes) store(row + c, to_floats(Half(), from + c));
  for (; c < shape.head_dim; ++c) row[c] = to_float(Half(), from[c]);
}

inline void decode(Int8, const uint8_t* page, const Shape& shape, int slot, float* row) {
  const float scale = binary16(page + 1LL * shape.slots * shape.head_dim, slot);
  const int8_t* from = (const int8_t*)page + 1LL * slot * shape.head_dim;
  int c = 0;
  for (; c + kLanes <= shape.head_dim; c += kLanes)
    store(row + c, floats(widen(from + c)) * scale);
  for (; c < shape.head_dim; ++c) row[c] = from[c] * scale;
}

// The codes of a slot as floats. Nothing is shifted, so plane p is 2^(bits*p) times too large; the
// factor goes into what the codes are multiplied with.
template <int bits>
inline void unpack(const uint8_t* codes, int plane, float* row) {
  constexpr int kMask = (1 << bits) - 1;
  int j = 0;
  for (; j + kLanes <= plane; j += kLanes) {
    const Ints wide = widen(codes + j);
#pragma GCC unroll 4
    for (int p = 0; p < 8 / bits; ++p)
      store(row + p * plane + j, floats(wide & (kMask << bits * p)));
  }
  for (; j < plane; ++j)
    for (int p = 0; p < 8 / bits; ++p) row[p * plane + j] = codes[j] & (kMask << bits * p);
}

// Values of a slot. The scales of a grouped page are read once a block.
template <class Format>
inline void read_scales(Format, const uint8_t*, const Shape&, float*) {}

// Fill scale[slots, spans], then minimum[slots, spans].
template <int bits>
inline void read_scales(Grouped<bits>, const uint8_t* page, const Shape& shape, float* scales) {
  const int count = 2 * shape.slots * (shape.head_dim / shape.span);
  const uint8_t* from = page + 1LL * shape.slots * shape.head_dim * bits / 8;
  int i = 0;
  for (; i + kLanes <= count; i += kLanes)
    store(scales + i, to_floats(Binary16(), halves(from) + i));
  for (; i < count; ++i) scales[i] = binary16(from, i);
}

template <class Format>
inline void decode_value(Format format, const uint8_t* page, const Shape& shape, int slot,
                         const float*, float* row) {
  decode(format, page, shape, slot, row);
}

// code * scale + minimum; the scale changes from span to span, its factor from plane to plane.
template <int bits>
inline void decode_value(Grouped<bits>, const uint8_t* page, const Shape& shape, int slot,
                         const float* scales, float* row) {
  constexpr int kMask = (1 << bits) - 1;
  const int plane = shape.head_dim * bits / 8, span = shape.span, spans = shape.head_dim / span;
  const uint8_t* codes = page + 1LL * slot * plane;
  const float* scale = scales + slot * spans;
  const float* minimum = scale + shape.slots * spans;
  if (plane % kLanes || span % kLanes || span & (span - 1)) {
    for (int c = 0; c < shape.head_dim; ++c) {
      const int code = codes[c % plane] >> c / plane * bits & kMask;
      row[c] = code * scale[c / span] + minimum[c / span];
    }
    return;
  }
  const int shift = __builtin_ctz(span);
  for (int j = 0; j < plane; j += kLanes) {
    const Ints wide = widen(codes + j);
#pragma GCC unroll 4
    for (int p = 0; p < 8 / bits; ++p) {
      const int c = p * plane + j;
      const float step = scale[c >> shift] * (1.0f / (1 << bits * p));
      store(row + c, floats(wide & (kMask << bits * p)) * step + minimum[c >> shift]);
    }
  }
}

// Keys of a slot, up to the factors that prepare_query puts into the query.
template <class Format>
inline void decode_key(Format format, const uint8_t* page, const Shape& shape, int slot,
                       float* row) {
  decode(format, page, shape, slot, row);
}

template <int bits>
inline void decode_key(Grouped<bits>, const uint8_t* page, const Shape& shape, int slot,
                       float* row) {
  const int plane = shape.head_dim * bits / 8;
  unpack<bits>(page + 1LL * slot * plane, plane, row);
}

// Turn a query into one for the floats of decode_key; return what to add to the products.
template <class Format>
inline float prepare_query(Format, const uint8_t*, const Shape&, const float*, float*) {
  return 0;
}

// The slots of a block share the scales of keys, so these go into the query, once a block:
// q.(code*scale + minimum) = (q*scale).code + q.minimum.
template <int bits>
inline float prepare_query(Grouped<bits>, const uint8_t* page, const Shape& shape,
                           const float* query, float* prepared) {
  const int plane = shape.head_dim * bits / 8;
  const uint8_t* scales = page + 1LL * shape.slots * plane;
  const uint8_t* minima = scales + 2LL * shape.head_dim;
  Floats bases = {};
  int c = 0;
  for (; c + kLanes <= shape.head_dim; c += kLanes) {
    const Floats part = load<Floats>(query + c);
    bases += part * to_floats(Binary16(), halves(minima) + c);
    store(prepared + c, part * to_floats(Binary16(), halves(scales) + c));
  }
  float base = 0;
  for (int l = 0; l < kLanes; ++l) base += bases[l];
  for (; c < shape.head_dim; ++c) {
    base += query[c] * binary16(minima, c);
    prepared[c] = query[c] * binary16(scales, c);
  }
  float factor = 1;
  for (int end = plane; c = end, end < shape.head_dim; end += plane) {
    factor /= 1 << bits;
    for (; c < end + plane; ++c) prepared[c] *= factor;
  }
  return base;
}

}  // namespace
