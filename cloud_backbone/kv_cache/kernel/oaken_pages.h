// SPDX-License-Identifier: Apache-2.0
// Reader of Oaken's pages; oaken_page.py and oaken_groups.py say what they mean.
//
//   half bytes  uint8[slots, head_dim / 2], planar
//   scales      uint8[slots, 2]             codes of the scales of the middle and the outer group
//   counts      uint8[slots, chunks]        sparse elements of each chunk of 64 channels
//   sparse      uint8[capacity]             channel within the chunk | outer << 6 | upper << 7
//
// A half byte and its group stand for one of 16 values, begin + step * scale, held in a table.
// All elements are first taken for members of the middle group; then sparse ones are put right.
// Any bytes at all give finite floats.
#pragma once

#include "plain_pages.h"

namespace {

class OakenReader {
 public:
  explicit OakenReader(const Call& call)
      : call_(call), slots_(call.slots), head_dim_(call.head_dim), plane_(head_dim_ / 2),
        chunks_((head_dim_ + kChunk - 1) / kChunk), ends_(slots_ * chunks_ + 1) {}
  bool ready() const { return ends_; }
  void open_keys(const uint8_t* page, int64_t head) { open(page, head); }
  void open_values(const uint8_t* page, int64_t head) { open(page, head); }
  float fold_into(const float*, float*) const { return 0; }
  void key(int slot, float* row) const { value(slot, row); }

  void value(int slot, float* row) const {
    const uint8_t* nibbles = page_ + 1LL * slot * plane_;
    const uint8_t* codes = page_ + 1LL * slots_ * plane_ + 2 * slot;
    Table middle;
    fill(middle, kMiddle, call_.scales[codes[0]]);
    int j = 0;
    for (; j + kLanes <= plane_; j += kLanes) {
      const Ints wide = widen(nibbles + j);
      store(row + j, look_up(middle, wide & 15));
      store(row + plane_ + j, look_up(middle, wide >> 4));
    }
    for (; j < plane_; ++j) {
      row[j] = middle[nibbles[j] & 15];
      row[plane_ + j] = middle[nibbles[j] >> 4];
    }
    mend(slot, nibbles, call_.scales[codes[1]], row);
  }

 private:
  static constexpr int kChunk = 64;
  static constexpr float kHuge = 3.4028234663852886e38f;

  typedef float Table[16];
  // The first four are numbered as the upper two bits of a sparse byte.
  enum Kind { kInnerBelow, kOuterBelow, kInnerAbove, kOuterAbove, kMiddle, kKinds };

  // What the half bytes of a kind stand for at a scale.
  void fill(float* table, int kind, float scale) const {
    for (int i = 0; i < 16; i += kLanes) {
      const Floats exact = load<Floats>(begin_[kind] + i) + load<Floats>(step_[kind] + i) * scale;
      const Floats low = exact < -kHuge ? Floats{} - kHuge : exact;
      store(table + i, low > kHuge ? Floats{} + kHuge : low);
    }
  }

  // Find where the sparse bytes of each chunk end; garbage does not count beyond the page.
  void open(const uint8_t* page, int64_t head) {
    page_ = page;
    if (head != head_) read_edges(call_.edges + 4 * head);
    head_ = head;
    const uint8_t* counts = page + 1LL * slots_ * (plane_ + 2);
    sparse_ = counts + slots_ * chunks_;
    int64_t end = 0;
    for (int i = 0; i < slots_ * chunks_; ++i) {
      end += counts[i];
      ends_[i + 1] = int32_t(end < call_.capacity ? end : call_.capacity);
    }
  }

  // Equal cells on either side, each taken at its middle: 8 from the inner threshold to the outer,
  // 16 from the outer threshold on, and 16 from the centre to the inner threshold.
  void read_edges(const float* edges) {
    const float centre = edges[0], half = edges[1], below = edges[2], above = edges[3];
    for (int i = 0; i < 16; ++i) {
      const float level = (i + 0.5f) / 16, in_middle = (i % 8 + 0.5f) / 8;
      begin_[kInnerBelow][i] = begin_[kInnerAbove][i] = centre;
      step_[kInnerBelow][i] = -half * level;
      step_[kInnerAbove][i] = half * level;
      begin_[kOuterBelow][i] = centre - half - below;
      begin_[kOuterAbove][i] = centre + half + above;
      step_[kOuterBelow][i] = -below * level;
      step_[kOuterAbove][i] = above * level;
      begin_[kMiddle][i] = i < 8 ? centre - half : centre + half;
      step_[kMiddle][i] = i < 8 ? -below * in_middle : above * in_middle;
    }
    fill(sparse_values_[kInnerBelow], kInnerBelow, 1);
    fill(sparse_values_[kInnerAbove], kInnerAbove, 1);
  }

  // Put the sparse elements of a slot right.
  void mend(int slot, const uint8_t* nibbles, float scale, float* row) const {
    const int32_t* end = ends_ + slot * chunks_;
    if (end[0] == end[chunks_]) return;
    fill(sparse_values_[kOuterBelow], kOuterBelow, scale);
    fill(sparse_values_[kOuterAbove], kOuterAbove, scale);
    uint8_t unpacked[kLongestHead];
    unpack(nibbles, unpacked);
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      const int first = chunk * kChunk, rest = head_dim_ - first;
      mend_chunk(sparse_ + end[chunk], sparse_ + end[chunk + 1], unpacked + first,
                 sparse_values_[0], rest < kChunk ? rest - 1 : kChunk - 1, row + first);
    }
  }

  void unpack(const uint8_t* nibbles, uint8_t* unpacked) const {
    typedef uint8_t Bytes __attribute__((vector_size(16)));
    int j = 0;
    for (; j + 16 <= plane_; j += 16) {
      const Bytes both = load<Bytes>(nibbles + j);
      store(unpacked + j, both & 15);
      store(unpacked + plane_ + j, both >> 4);
    }
    for (; j < plane_; ++j) {
      unpacked[j] = nibbles[j] & 15;
      unpacked[plane_ + j] = nibbles[j] >> 4;
    }
  }

  // On its own, for it needs all registers.
  __attribute__((noinline)) static void mend_chunk(const uint8_t* sparse, const uint8_t* end,
                                                   const uint8_t* nibbles, const float* values,
                                                   unsigned last, float* row) {
    for (; sparse < end; ++sparse) {
      const unsigned byte = *sparse, channel = byte & (kChunk - 1);
      const unsigned c = channel < last ? channel : last;
      row[c] = values[(byte >> 6) * 16 + nibbles[c]];
    }
  }

  const Call& call_;
  const uint8_t* page_ = nullptr;
  const uint8_t* sparse_ = nullptr;
  int64_t head_ = -1;
  alignas(64) Table begin_[kKinds], step_[kKinds];
  alignas(64) mutable Table sparse_values_[kKinds - 1];  // of the slot that is read
  int slots_, head_dim_, plane_, chunks_;
  Zeros<int32_t> ends_;
};

}  // namespace
