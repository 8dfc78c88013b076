// The attention's CPU kernels, as the levels offer them and as the glue calls them. Each works on tasks [begin, end)
// (see tasks.h); rows that tasks share are left in `pieces`, which the joins put together, in a fixed order.
#pragma once

#include "../attention.h"
#include "levels.h"
#include "tile.h"

namespace dgl_ptdnet {

// The pass of GATv2's scores over one side that makes the gradient of that side's rows.
struct ScoreSide {
  const EdgeSide& side;
  const void *own, *other;  // rows of this side and of the one that edges lead to
  int64_t own_stride, other_stride;
  void* grad;  // of own
  const double*
      center;   // [heads * feats] about the mean of p's columns: any value is right, a near one loses no digits
  double sign;  // of the centre: -1 for p, 1 for q
};

struct AttentionKernels {
  int64_t (*piece_size)(int64_t heads, int64_t feats);  // numbers of acc; two pieces a task
  void (*forward)(const Tile<AttentionForward>&, void* pieces, int64_t begin, int64_t end);
  void (*join_forward)(const Tile<AttentionForward>&, const void* pieces, int64_t begin, int64_t end);
  void (*weights)(const Tile<AttentionForward>&, int64_t begin, int64_t end);
  void (*records)(const AttentionBackward&, int64_t begin, int64_t end);  // destinations [begin, end)
  void (*backward)(const AttentionBackward&, void* pieces, int64_t begin, int64_t end);
  void (*join_backward)(const AttentionBackward&, const void* pieces, int64_t begin, int64_t end);
  void (*scores)(const EdgeScoresForward&, int64_t begin, int64_t end);
  // grad_w [heads * feats] is added to.
  void (*scores_backward)(const EdgeScoresBackward&, const ScoreSide&, void* pieces, double* grad_w, int64_t begin,
                          int64_t end);
  void (*join_scores)(const EdgeScoresBackward&, const ScoreSide&, void* pieces, double* grad_w, int64_t begin,
                      int64_t end);
};

PTD_DECLARE_LEVELS(AttentionKernels, attention_kernels)

}  // namespace dgl_ptdnet
