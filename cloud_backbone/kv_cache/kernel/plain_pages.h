// SPDX-License-Identifier: Apache-2.0
// Readers of pages whose slots stand alone: a slot becomes floats. Know no queries and no weights.
//
//   raw     T[slots, head_dim], T = float, binary16 or brain float
//   int8    int8[slots, head_dim] | binary16 scale[slots]
//
// What every reader has: Reader(call); ready(), false for want of memory; open_keys(page, head) or
// open_values(page, head); then for each slot key(slot, row) or value(slot, row); and fold_into.
// Only head_dim floats of a row are written; what pads it to whole vectors stays zero.
#pragma once

#include <cstdlib>

#include "attention.h"
#include "lanes.h"

namespace {

constexpr int kLongestHead = 512;
// Floats from one decoded row to the next: known to the compiler, and no power of two, which would
// put all rows into the same few lines of the processor's cache.
constexpr int kStride = kLongestHead + 16;

// Zeros, aligned for vectors.
template <class T>
class Zeros {
 public:
  explicit Zeros(int64_t count) {
    const size_t bytes = sizeof(T) * count;
    if (posix_memalign(&memory_, 64, bytes + 64)) memory_ = nullptr;
    if (memory_) std::memset(memory_, 0, bytes);
  }
  ~Zeros() { std::free(memory_); }
  Zeros(const Zeros&) = delete;
  operator T*() const { return (T*)memory_; }

 private:
  void* memory_ = nullptr;
};

inline float binary16(const uint8_t* from, int64_t index) {
  return to_float(Binary16(), load<uint16_t>(from + 2 * index));
}

// What the readers of this file have in common: keys and values are written alike, in pages that
// need no preparation.
class PlainReader {
 public:
  explicit PlainReader(const Call& call) : slots_(call.slots), head_dim_(call.head_dim) {}
  bool ready() const { return true; }
  void open_keys(const uint8_t* page, int64_t) { page_ = page; }
  void open_values(const uint8_t* page, int64_t) { page_ = page; }
  // Turn a query into one for the rows that key() writes; return what to add to their products.
  float fold_into(const float*, float*) const { return 0; }

 protected:
  const uint8_t* page_ = nullptr;
  int64_t slots_;
  int head_dim_;
};

class FloatReader : public PlainReader {
 public:
  using PlainReader::PlainReader;
  void key(int slot, float* row) const { value(slot, row); }
  void value(int slot, float* row) const {
    std::memcpy(row, page_ + 4LL * slot * head_dim_, 4LL * head_dim_);
  }
};

template <class Half>
class HalfReader : public PlainReader {
 public:
  using PlainReader::PlainReader;
  void key(int slot, float* row) const { value(slot, row); }
  void value(int slot, float* row) const {
    const uint16_t* from = (const uint16_t*)page_ + 1LL * slot * head_dim_;
    int c = 0;
    for (; c + kLanes <= head_dim_; c += kLanes) store(row + c, to_floats(Half(), from + c));
    for (; c < head_dim_; ++c) row[c] = to_float(Half(), from[c]);
  }
};

class Int8Reader : public PlainReader {
 public:
  using PlainReader::PlainReader;
  void key(int slot, float* row) const { value(slot, row); }
  void value(int slot, float* row) const {
    const float scale = binary16(page_ + slots_ * head_dim_, slot);
    const int8_t* from = (const int8_t*)page_ + 1LL * slot * head_dim_;
    int c = 0;
    for (; c + kLanes <= head_dim_; c += kLanes) store(row + c, floats(widen(from + c)) * scale);
    for (; c < head_dim_; ++c) row[c] = from[c] * scale;
  }
};

}  // namespace
