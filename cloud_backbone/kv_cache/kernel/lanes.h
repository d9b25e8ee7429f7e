// SPDX-License-Identifier: Apache-2.0
// Vectors of kLanes floats; knows no pages. TENDON_LANES is given to the compiler: 4 anywhere, 8
// for processors with AVX2, 16 for AVX-512.
//
// Built on the vector extensions of GCC and Clang; intrinsics only where those are slow.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#if TENDON_LANES > 4
#include <immintrin.h>
#endif

// GCC 12 takes the undefined operand inside its own intrinsics for a mistake.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace {

constexpr int kLanes = TENDON_LANES;

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));

template <class T>
inline T load(const void* from) {
  T loaded;
  std::memcpy(&loaded, from, sizeof loaded);
  return loaded;
}

template <class T>
inline void store(void* to, T stored) {
  std::memcpy(to, &stored, sizeof stored);
}

// kLanes small integers as wide ones.
inline Ints widen(const uint8_t* bytes) {
#if TENDON_LANES == 16
  return (Ints)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)bytes));
#elif TENDON_LANES == 8
  return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)bytes));
#else
  typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
  return __builtin_convertvector(load<Bytes>(bytes), Ints);
#endif
}

inline Ints widen(const int8_t* bytes) {
#if TENDON_LANES == 16
  return (Ints)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)bytes));
#elif TENDON_LANES == 8
  return (Ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)bytes));
#else
  typedef int8_t Bytes __attribute__((vector_size(kLanes)));
  return __builtin_convertvector(load<Bytes>(bytes), Ints);
#endif
}

inline Ints widen(const uint16_t* halves) {
#if TENDON_LANES == 16
  return (Ints)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)halves));
#elif TENDON_LANES == 8
  return (Ints)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)halves));
#else
  typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));
  return __builtin_convertvector(load<Halves>(halves), Ints);
#endif
}

inline Floats floats(Ints integers) { return __builtin_convertvector(integers, Floats); }

// Sixteen-bit floats: the upper half of a float, or IEEE binary16. For the latter, 2^112 moves the
// exponent to that of a float; subnormals come out exact. No infinities: pages hold none.
struct Brain {};
struct Binary16 {};

constexpr float kExponentShift = 5192296858534827628530496329220096.0f;

inline Floats to_floats(Brain, const uint16_t* from) { return (Floats)(widen(from) << 16); }

inline Floats to_floats(Binary16, const uint16_t* from) {
  const Ints bits = widen(from);
  const Floats magnitude = (Floats)((bits & 0x7fff) << 13) * kExponentShift;
  return (Floats)((Ints)magnitude | (bits & 0x8000) << 16);
}

inline float to_float(Brain, uint16_t half) {
  const uint32_t bits = uint32_t(half) << 16;
  return load<float>(&bits);
}

inline float to_float(Binary16, uint16_t half) {
  const uint32_t bits = uint32_t(half & 0x7fff) << 13;
  const float shifted = load<float>(&bits) * kExponentShift;
  return half & 0x8000 ? -shifted : shifted;
}

// Entries of a table of 16.
inline Floats look_up(const float* table, Ints index) {
#if TENDON_LANES == 16
  return (Floats)_mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(table));
#elif TENDON_LANES == 8
  const __m256i entry = (__m256i)index;  // the lower three bits pick, the fourth is made the sign
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), entry);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), entry);
  return (Floats)_mm256_blendv_ps(low, high, (__m256)(index << 28));
#else
  Floats found;
  for (int l = 0; l < kLanes; ++l) found[l] = table[index[l]];
  return found;
#endif
}

// Fold the lanes of x and y onto half their number: where bit H of a lane's number is set, y's.
template <int H, int... L>
inline Floats fold(Floats x, Floats y, std::integer_sequence<int, L...>) {
#ifdef __clang__
  return __builtin_shufflevector(x, y, (L & H ? kLanes + L : L)...) +
         __builtin_shufflevector(x, y, (L & H ? kLanes + L - H : L + H)...);
#else
  return __builtin_shuffle(x, y, Ints{(L & H ? kLanes + L : L)...}) +
         __builtin_shuffle(x, y, Ints{(L & H ? kLanes + L - H : L + H)...});
#endif
}

// Sum the lanes of each of kLanes vectors: lane l of the result is the sum of sums[l].
template <int H = kLanes / 2>
inline Floats sum_each(Floats* sums) {
#pragma GCC unroll 8
  for (int i = 0; i < H; ++i)
    sums[i] = fold<H>(sums[i], sums[i + H], std::make_integer_sequence<int, kLanes>());
  if constexpr (H == 1)
    return sums[0];
  else
    return sum_each<H / 2>(sums);
}

}  // namespace
