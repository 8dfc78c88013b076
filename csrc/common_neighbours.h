// What the kernel of common neighbours is given.
#pragma once

#include <cstdint>

namespace dgl_ptdnet {

// For each pair the sum of weight[e] * weight[f] over edges e into u and f into v that start at the same node.
// node: the sources of each destination's edges in ascending order; edge: the numbers of these edges.
struct CommonNeighbours {
  const int32_t *ptr, *node, *edge;  // [nodes + 1], [E], [E]
  const double* weight;              // [E], by number of the edge
  const int64_t *u, *v;              // [pairs]
  // outputs
  double* out;  // [pairs]
};

}  // namespace dgl_ptdnet
