// SPDX-License-Identifier: Apache-2.0
// The functions that Python calls, through ctypes: they check the table of pages and take the
// loops for this processor. TENDON_X86 says that loops for AVX2 and AVX-512 were compiled, too.
#include "attention.h"

namespace {

int64_t lanes_of_processor() {
#ifdef TENDON_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return 16;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 8;
#endif
  return 4;
}

// Count the entries of the table that name no page.
int64_t strays(const Call& call) {
  int64_t found = 0;
  for (int64_t head = 0; head < call.kv_heads; ++head)
    for (int64_t block = 0; block < call.blocks; ++block)
      found += uint64_t(call.table[head * call.table_stride + block]) >= uint64_t(call.pages);
  return found;
}

// The most lanes, up to so many, that what lies side by side in a page is a multiple of.
int64_t fitting(const Call& call, int64_t lanes) {
  const int64_t planes[] = {1, 1, 1, 1, 2, 4, 2};  // of each layout
  const int64_t plane = call.head_dim / planes[call.layout];
  while (lanes > 4 && (plane % lanes || call.span % lanes)) lanes /= 2;
  return lanes;
}

int64_t run(const Call& call, Loop* narrow, Loop* wide, Loop* widest) {
  if (const int64_t found = strays(call)) return found;
  const int64_t here = lanes_of_processor();
  const int64_t lanes = fitting(call, call.lanes && call.lanes < here ? call.lanes : here);
  return (lanes >= 16 ? widest : lanes >= 8 ? wide : narrow)(call);
}

}  // namespace

#ifdef TENDON_X86
#define TENDON_RUN(what, call) run(call, what##_4, what##_8, what##_16)
#else
#define TENDON_RUN(what, call) run(call, what##_4, what##_4, what##_4)
#endif

#define TENDON_EXPORT extern "C" __attribute__((visibility("default")))

// Of Call; Python does not call a library of another revision.
TENDON_EXPORT int64_t tendon_kernel_revision() { return 2; }

// Floats of a vector.
TENDON_EXPORT int64_t tendon_kernel_lanes() { return lanes_of_processor(); }

// Both return 0, the number of entries of the table that name no page, or -1: no memory.
TENDON_EXPORT int64_t tendon_key_scores(const Call* call) { return TENDON_RUN(key_scores, *call); }
TENDON_EXPORT int64_t tendon_value_mix(const Call* call) { return TENDON_RUN(value_mix, *call); }
