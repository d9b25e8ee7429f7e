// SPDX-License-Identifier: Apache-2.0
// Reader of Oaken's pages; oaken_page.py and oaken_groups.py say what they mean.
//
//   half bytes  uint8[slots, head_dim / 2], planar
//   scales      uint8[slots, 2]             codes of the scales of the middle and the outer group
//   counts      uint8[slots, chunks]        sparse elements of each chunk of 64 channels
//   sparse      uint8[capacity]             channel within the chunk | outer << 6 | upper << 7
//
// All elements are first taken for members of the middle group, whose 16 values are looked up in a
// table of the slot; then the sparse ones are put right. Any bytes at all give finite floats.
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
    float table[16];
    fill(table, call_.scales[codes[0]]);
    int j = 0;
    for (; j + kLanes <= plane_; j += kLanes) {
      const Ints wide = widen(nibbles + j);
      store(row + j, look_up(table, wide & 15));
      store(row + plane_ + j, look_up(table, wide >> 4));
    }
    for (; j < plane_; ++j) {
      row[j] = table[nibbles[j] & 15];
      row[plane_ + j] = table[nibbles[j] >> 4];
    }
    mend(slot, nibbles, call_.scales[codes[1]], row);
  }

 private:
  static constexpr int kChunk = 64;
  static constexpr float kHuge = 3.4028234663852886e38f;

  static float finite(float x) { return x < -kHuge ? -kHuge : x > kHuge ? kHuge : x; }

  // Find where the sparse bytes of each chunk end; garbage does not count beyond the page.
  void open(const uint8_t* page, int64_t head) {
    page_ = page;
    edges_ = call_.edges + 4 * head;
    const uint8_t* counts = page + 1LL * slots_ * (plane_ + 2);
    sparse_ = counts + slots_ * chunks_;
    int64_t end = 0;
    for (int i = 0; i < slots_ * chunks_; ++i) {
      end += counts[i];
      ends_[i + 1] = int32_t(end < call_.capacity ? end : call_.capacity);
    }
  }

  // The values of the middle group: 8 below the inner threshold, 8 above.
  void fill(float* table, float scale) const {
    const float centre = edges_[0], half = edges_[1];
    const float below = edges_[2] / 8 * scale, above = edges_[3] / 8 * scale;
    for (int cell = 0; cell < 8; ++cell) {
      table[cell] = finite(centre - half - below * (cell + 0.5f));
      table[cell + 8] = finite(centre + half + above * (cell + 0.5f));
    }
  }

  // Put the sparse elements of a slot right.
  void mend(int slot, const uint8_t* nibbles, float scale, float* row) const {
    const float centre = edges_[0], half = edges_[1], below = edges_[2], above = edges_[3];
    const float begin[4] = {centre, centre - half - below, centre, centre + half + above};
    const float step[4] = {-half / 16, -below * scale / 16, half / 16, above * scale / 16};
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      const int32_t* end = ends_ + slot * chunks_ + chunk;
      for (int32_t i = end[0]; i < end[1]; ++i) {
        int c = chunk * kChunk + (sparse_[i] & (kChunk - 1));
        if (c >= head_dim_) c = head_dim_ - 1;
        const int nibble = c < plane_ ? nibbles[c] & 15 : nibbles[c - plane_] >> 4;
        const int kind = sparse_[i] >> 6;
        row[c] = finite(begin[kind] + step[kind] * (nibble + 0.5f));
      }
    }
  }

  const Call& call_;
  const uint8_t* page_ = nullptr;
  const uint8_t* sparse_ = nullptr;
  const float* edges_ = nullptr;
  int slots_, head_dim_, plane_, chunks_;
  Zeros<int32_t> ends_;
};

}  // namespace
