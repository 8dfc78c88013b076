// What the kernel of common neighbours is given.
#pragma once

#include "core/types.h"

namespace dgl_ptdnet {

// For each pair the sum of weight[e] * weight[f] over edges e into u and f into v that start at the same node.
struct CommonNeighbours {
  EdgeSide side;         // by destination, the sources of each in ascending order
  const double* weight;  // [E] in the caller's order
  const int64_t *u, *v;  // [pairs]
  int64_t pairs;
  // outputs
  double* out;  // [pairs]
};

}  // namespace dgl_ptdnet
