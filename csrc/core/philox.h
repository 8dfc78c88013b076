// Random numbers from an edge's id and (seed, offset), for host and device.
#pragma once

#include "types.h"

namespace dgl_ptdnet {

struct Philox4 {
  uint32_t x[4];
};

// Philox4x32-10.
PTD_HD Philox4 philox(uint64_t counter, uint64_t seed, uint64_t offset) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(offset), c3 = static_cast<uint32_t>(offset >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t b = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(b);
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

PTD_HD uint32_t edge_bits(int64_t id, uint64_t seed, uint64_t offset) {
  const Philox4 draw = philox(static_cast<uint64_t>(id) >> 2, seed, offset);
  const uint32_t lower = id & 1 ? draw.x[1] : draw.x[0], upper = id & 1 ? draw.x[3] : draw.x[2];
  return id & 2 ? upper : lower;  // no x[id & 3]: it would put the array into a GPU's local memory
}

// (k + 1/2) * 2^-23 for integers k: exact in fp32 and never 0 or 1, so logarithms stay finite.
template <class A>
PTD_HD A to_uniform(uint32_t bits) {
  return (static_cast<A>(bits >> 9) + A(0.5)) * A(1.1920928955078125e-07);
}

}  // namespace dgl_ptdnet
