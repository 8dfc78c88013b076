// The CPU kernels of aggregate and maximum, as the levels offer them and as the glue calls them. Each works on tasks
// [begin, end) (see tasks.h); rows that tasks share are left in `pieces`, which the joins add up, in a fixed order.
#pragma once

#include "../aggregate.h"
#include "levels.h"
#include "tile.h"

namespace dgl_ptdnet {

struct AggregateKernels {
  int64_t (*piece_size)(int64_t heads, int64_t feats);  // numbers of acc; two pieces a task
  void (*forward)(const Tile<AggregateForward>&, void* pieces, int64_t begin, int64_t end);
  void (*join_forward)(const Tile<AggregateForward>&, const void* pieces, int64_t begin, int64_t end);
  void (*backward)(const AggregateBackward&, void* pieces, int64_t begin, int64_t end);
  void (*join_backward)(const AggregateBackward&, const void* pieces, int64_t begin, int64_t end);
  // `arg_pieces` are as many int32 beside the pieces.
  void (*maximum)(const MaximumForward&, void* pieces, int32_t* arg_pieces, int64_t begin, int64_t end);
  void (*join_maximum)(const MaximumForward&, void* pieces, int32_t* arg_pieces, int64_t begin, int64_t end);
};

PTD_DECLARE_LEVELS(AggregateKernels, aggregate_kernels)

}  // namespace dgl_ptdnet
