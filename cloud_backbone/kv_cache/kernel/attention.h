// SPDX-License-Identifier: Apache-2.0
// What Python hands over, and the functions that are compiled for several processors.
#pragma once

#include <cstdint>

// One call; cloud_backbone/kv_cache/compiled_kernel.py holds the same fields in the same order.
struct Call {
  int64_t layout, lanes, pages, page_bytes, table_stride;
  int64_t kv_heads, blocks, slots, head_dim, rows;
  int64_t span;          // grouped pages of values: channels that share a scale
  int64_t capacity;      // Oaken: sparse bytes of a page
  const float* edges;    // Oaken: centre, half, width below, width above (kv_heads, 4)
  const float* scales;   // Oaken: what the codes of scales stand for (256)
  const uint8_t* arena;  // (pages, page_bytes)
  const int64_t* table;  // (kv_heads, blocks), rows table_stride apart
  const float* input;    // query (kv_heads, rows, head_dim) or weights (kv_heads, rows, slots)
  float* output;         // scores (kv_heads, rows, slots) or mixtures (kv_heads, rows, head_dim)
};

// Return 0, or -1 for want of memory.
using Loop = int64_t(const Call&);

Loop key_scores_4, value_mix_4, key_scores_8, value_mix_8, key_scores_16, value_mix_16;
