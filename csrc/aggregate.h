// The arguments of aggregate's and maximum's kernels, as plain pointers. `acc` is float, or double where rows are
// double. `side` is by destination, or by source for sums into sources.
#pragma once

#include "core/types.h"

namespace dgl_ptdnet {

struct AggregateForward {
  EdgeSide side;
  Dtype dtype;  // of h and out
  int64_t heads, feats;
  const void* h;  // [side.others, heads, feats], rows h_stride elements apart
  int64_t h_stride;
  const void* z;  // [E, heads] acc in the caller's order, or null: ones
  // outputs
  void* out;  // [side.rows, heads, feats]
};

// For aggregate and, with `arg`, for maximum: a column then counts only the edge that its maximum came from.
struct AggregateBackward {
  EdgeSide side;  // of the rows of h: the opposite of the forward's
  Dtype dtype;
  int64_t heads, feats;
  const void* h;     // [side.rows, heads, feats], rows h_stride elements apart
  const void* grad;  // [side.others, heads, feats], rows grad_stride elements apart
  int64_t h_stride, grad_stride;
  const void* z;       // [E, heads] acc, or null: ones
  const int32_t* arg;  // as maximum returned it, and heads = 1; null for aggregate
  // outputs
  void* grad_h;  // [side.rows, heads, feats], or null
  void* grad_z;  // [E, heads] acc in the caller's order, or null
};

struct MaximumForward {
  EdgeSide side;  // by destination
  Dtype dtype;
  int64_t feats;
  const void* h;  // [num_src, feats], rows h_stride elements apart
  int64_t h_stride;
  const void* z;  // [E] acc, or null: ones
  // outputs
  void* out;     // [num_dst, feats]
  int32_t* arg;  // [num_dst, feats] the edge that each maximum came from, -1 where no edge is kept
};

}  // namespace dgl_ptdnet
