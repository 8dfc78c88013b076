// The edge gate's launchers, and the draws of random numbers.
#include "entry.h"

extern "C" {

PTD_LAUNCHER(EdgeGateForward)
PTD_LAUNCHER(EdgeGateBackward)
PTD_LAUNCHER(Uniform)

void emulated_draws(const int64_t* ids, int64_t count, uint64_t seed, uint64_t offset, uint32_t* bits) {
  for (int64_t i = 0; i < count; ++i) bits[i] = dgl_ptdnet::edge_bits(ids[i], seed, offset);
}
}
