// SPDX-License-Identifier: Apache-2.0
// Reader of pages whose codes of b = 2 or 4 bits share scales (KIVI, SQuat).
//
//   keys     uint8 codes[slots, head_dim*b/8] | binary16 scale[head_dim] | minimum alike
//   values   codes alike | binary16 scale[slots, head_dim/span] | minimum alike
//
// Codes are planar: with P = 8/b codes a byte, byte j holds the channels j + p*head_dim/P, p = 0
// in the lowest bits. So kLanes bytes give kLanes neighbouring channels of each plane, in order.
// Nothing is shifted: codes of plane p are taken 2^(b*p) times too large, and what they are
// multiplied with is made smaller.
#pragma once

#include "plain_pages.h"

namespace {

template <int bits>
class GroupedReader {
 public:
  explicit GroupedReader(const Call& call)
      : slots_(call.slots), head_dim_(call.head_dim), plane_(head_dim_ * bits / 8),
        span_(call.span), spans_(head_dim_ / span_), scales_(2 * slots_ * spans_) {}
  bool ready() const { return scales_; }
  void open_keys(const uint8_t* page, int64_t) { page_ = page; }

  // Read all scales [slots, spans], then all minima.
  void open_values(const uint8_t* page, int64_t) {
    page_ = page;
    const uint8_t* from = page + 1LL * slots_ * plane_;
    const int count = 2 * slots_ * spans_;
    int i = 0;
    for (; i + kLanes <= count; i += kLanes)
      store(scales_ + i, to_floats(Binary16(), (const uint16_t*)from + i));
    for (; i < count; ++i) scales_[i] = binary16(from, i);
  }

  // The slots of a block share the scales of keys, so these go into the query, once a block:
  // q.(code*scale + minimum) = (q*scale).code + q.minimum.
  float fold_into(const float* query, float* folded) const {
    const uint8_t* scales = page_ + 1LL * slots_ * plane_;
    const uint8_t* minima = scales + 2LL * head_dim_;
    Floats bases = {};
    int c = 0;
    for (; c + kLanes <= head_dim_; c += kLanes) {
      const Floats part = load<Floats>(query + c);
      bases += part * to_floats(Binary16(), (const uint16_t*)minima + c);
      store(folded + c, part * to_floats(Binary16(), (const uint16_t*)scales + c));
    }
    float base = 0;
    for (int l = 0; l < kLanes; ++l) base += bases[l];
    for (; c < head_dim_; ++c) {
      base += query[c] * binary16(minima, c);
      folded[c] = query[c] * binary16(scales, c);
    }
    float factor = 1;
    for (int end = plane_; c = end, end < head_dim_; end += plane_) {
      factor /= 1 << bits;
      for (; c < end + plane_; ++c) folded[c] *= factor;
    }
    return base;
  }

  // The codes alone; fold_into did the rest.
  void key(int slot, float* row) const {
    const uint8_t* codes = page_ + 1LL * slot * plane_;
    int j = 0;
    for (; j + kLanes <= plane_; j += kLanes) {
      const Ints wide = widen(codes + j);
#pragma GCC unroll 4
      for (int p = 0; p < 8 / bits; ++p)
        store(row + p * plane_ + j, floats(wide & (kMask << bits * p)));
    }
    for (; j < plane_; ++j)
      for (int p = 0; p < 8 / bits; ++p) row[p * plane_ + j] = codes[j] & (kMask << bits * p);
  }

  // code * scale + minimum; the scale changes from span to span, its factor from plane to plane.
  void value(int slot, float* row) const {
    const uint8_t* codes = page_ + 1LL * slot * plane_;
    const float* scale = scales_ + slot * spans_;
    const float* minimum = scale + slots_ * spans_;
    if (plane_ % kLanes || span_ % kLanes || span_ & (span_ - 1)) {
      for (int c = 0; c < head_dim_; ++c) {
        const int code = codes[c % plane_] >> c / plane_ * bits & kMask;
        row[c] = code * scale[c / span_] + minimum[c / span_];
      }
      return;
    }
    const int shift = __builtin_ctz(span_);
    for (int j = 0; j < plane_; j += kLanes) {
      const Ints wide = widen(codes + j);
#pragma GCC unroll 4
      for (int p = 0; p < 8 / bits; ++p) {
        const int c = p * plane_ + j;
        const float step = scale[c >> shift] * (1.0f / (1 << bits * p));
        store(row + c, floats(wide & (kMask << bits * p)) * step + minimum[c >> shift]);
      }
    }
  }

 private:
  static constexpr int kMask = (1 << bits) - 1;

  const uint8_t* page_ = nullptr;
  int slots_, head_dim_, plane_, span_, spans_;
  Zeros<float> scales_;
};

}  // namespace
