// The tables of aggregate's and maximum's CPU kernels, one for each level. Each kernel works on tasks [begin, end), see
// tasks.h. It stores its parts of rows that span several tasks in `pieces`; the joins add them up in a fixed order.
#pragma once

#include "../aggregate.h"
#include "levels.h"
#include "tile.h"

namespace dgl_ptdnet {

struct AggregateKernels {
  int64_t (*piece_size)(int64_t heads, int64_t feats);  // in numbers of type acc; a task has two pieces
  void (*forward)(const Tile<AggregateForward>&, void* pieces, int64_t begin, int64_t end);
  void (*join_forward)(const Tile<AggregateForward>&, const void* pieces, int64_t begin, int64_t end);
  void (*backward)(const AggregateBackward&, void* pieces, int64_t begin, int64_t end);
  void (*join_backward)(const AggregateBackward&, const void* pieces, int64_t begin, int64_t end);
  // arg_pieces: as many int32 numbers as pieces has.
  void (*maximum)(const MaximumForward&, void* pieces, int32_t* arg_pieces, int64_t begin, int64_t end);
  void (*join_maximum)(const MaximumForward&, void* pieces, int32_t* arg_pieces, int64_t begin, int64_t end);
};

PTD_DECLARE_LEVELS(AggregateKernels, aggregate_kernels)

}  // namespace dgl_ptdnet
