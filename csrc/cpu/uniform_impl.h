// Draws uniform numbers on a CPU.
#pragma once

#include "../core/philox.h"
#include "../uniform.h"

namespace dgl_ptdnet {

// Draws the numbers of ids [begin, end).
inline void draw_uniform(const Uniform& a, int64_t begin, int64_t end) {
  const uint64_t seed = static_cast<uint64_t>(a.noise[0]), offset = static_cast<uint64_t>(a.noise[1]);
  for (int64_t i = begin; i < end; ++i) a.out[i] = to_uniform<float>(edge_bits(a.edge_ids[i], seed, offset));
}

}  // namespace dgl_ptdnet
