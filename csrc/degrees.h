// The arguments of the kernels of degrees and of gates' normalisation, as plain pointers to numbers of type `acc`:
// float or double.
#pragma once

#include "core/types.h"

namespace dgl_ptdnet {

// Sums the edges' numbers by row.
struct SegmentSum {
  EdgeSide side;
  Dtype acc;
  int64_t heads;
  const void* x;  // [E, heads] in the caller's order
  // outputs
  void* out;  // [rows, heads]
};

// The transpose: gives a row's number to each of its edges.
struct SegmentSpread {
  EdgeSide side;
  Dtype acc;
  int64_t heads;
  const void* x;  // [rows, heads]
  // outputs
  void* out;  // [E, heads] in the caller's order
};

struct NormalizeOptions {
  double left, right;  // exponents of the source's and of the destination's degree
  double floor;        // smaller degrees count as this
};

// w_e = z_e a_u b_v with a = max(degree, floor)^-left of the source and b = max(degree, floor)^-right of the
// destination, where a degree is the sum of a node's z. Where the base of a power is 0, the power counts as 0.
struct Normalize {
  EdgeSide in;  // by destination
  Dtype acc;
  int64_t heads;
  NormalizeOptions options;
  const void* z;        // [E, heads]
  const void* out_deg;  // [num_src, heads], null where left = 0
  const void* in_deg;   // [num_dst, heads], null where right = 0
  // outputs
  void* w;  // [E, heads]
};

// grad_z_e = grad_e a_u b_v - left / degree_u * out_sum_u - right / degree_v * in_sum_v, where out_sum and in_sum are
// sums of grad_e w_e. Each of the last two terms counts only where its degree is neither 0 nor below the floor.
struct NormalizeBackward : Normalize {
  const void* grad;     // [E, heads]
  const void* out_sum;  // [num_src, heads], null where left = 0
  const void* in_sum;   // [num_dst, heads], null where right = 0
  // outputs
  void* grad_z;  // [E, heads]
};

}  // namespace dgl_ptdnet
