// The arguments of the kernel of common neighbours.
#pragma once

#include "core/types.h"

namespace dgl_ptdnet {

// out[i] is the sum of weight[e] * weight[f] over edges e into u[i] and f into v[i] from the same source.
struct CommonNeighbours {
  EdgeSide side;         // by destination, the sources of each in ascending order
  const double* weight;  // [E] in the caller's order
  const int64_t *u, *v;  // [pairs]
  int64_t pairs;
  // outputs
  double* out;  // [pairs]
};

}  // namespace dgl_ptdnet
