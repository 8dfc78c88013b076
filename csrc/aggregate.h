// What the kernels of aggregate, maximum and the degrees are given: plain pointers. `acc` is float, or double where
// rows are double.
#pragma once

#include "edge_gate.h"

namespace dgl_ptdnet {

// The edges of every row, in a fixed order: of destinations, where `node` is the source, or of sources, where it is
// the destination.
struct EdgeSide {
  const int32_t* ptr;   // [rows + 1]
  const int32_t* node;  // [E] the other end of each edge, or null where nobody reads it
  const int32_t* edge;  // [E] the caller's number of each edge
  int64_t rows, others, edges;
};

struct AggregateForward {
  EdgeSide in;  // by destination
  Dtype dtype;  // of h and out
  int64_t heads, feats;
  const void* h;  // [num_src, heads, feats], rows h_stride elements apart
  int64_t h_stride;
  const void* z;  // [E, heads] acc in the caller's order, or null: ones
  // outputs
  void* out;  // [num_dst, heads, feats]
};

// Of aggregate and, with `arg`, of maximum: only the edge that a column's maximum came over counts for it.
struct AggregateBackward {
  EdgeSide out;  // by source
  Dtype dtype;
  int64_t heads, feats;
  const void* h;     // [num_src, heads, feats], rows h_stride elements apart
  const void* grad;  // [num_dst, heads, feats], rows grad_stride elements apart
  int64_t h_stride, grad_stride;
  const void* z;       // [E, heads] acc, or null: ones
  const int32_t* arg;  // maximum's, and heads = 1; null for aggregate
  // outputs
  void* grad_h;  // [num_src, heads, feats], or null
  void* grad_z;  // [E, heads] acc in the caller's order, or null
};

struct MaximumForward {
  EdgeSide in;
  Dtype dtype;
  int64_t feats;
  const void* h;  // [num_src, feats], rows h_stride elements apart
  int64_t h_stride;
  const void* z;  // [E] acc, or null: ones
  // outputs
  void* out;     // [num_dst, feats]
  int32_t* arg;  // [num_dst, feats] the edge that each maximum came over, -1 where none is kept
};

// Sums of edges' numbers by row, and the way back: a row's number given to each of its edges.
struct SegmentSum {
  EdgeSide side;
  int64_t heads;
  const void* x;  // [E, heads] acc in the caller's order; [rows, heads] to spread
  // outputs
  void* out;  // [rows, heads] acc; [E, heads] to spread
};

// w_e = z_e a_u b_v with a = max(degree, floor)^-left of the source and b = max(degree, floor)^-right of the
// destination, where a degree is the sum of a node's z. A power of 0 counts as 0.
struct Normalize {
  EdgeSide in;
  int64_t heads;
  double left, right, floor;
  const void* z;        // [E, heads] acc
  const void* out_deg;  // [num_src, heads] acc, null where left = 0
  const void* in_deg;   // [num_dst, heads] acc, null where right = 0
  // outputs
  void* w;  // [E, heads] acc
};

// grad_z_e = grad_e a_u b_v - left / degree_u * out_sum_u - right / degree_v * in_sum_v, the last two only where the
// degree is not below the floor; the sums are those of grad_e w_e.
struct NormalizeBackward : Normalize {
  const void* grad;     // [E, heads] acc
  const void* out_sum;  // [num_src, heads] acc, null where left = 0
  const void* in_sum;   // [num_dst, heads] acc, null where right = 0
  // outputs
  void* grad_z;  // [E, heads] acc
};

}  // namespace dgl_ptdnet
