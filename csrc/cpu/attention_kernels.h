// The tables of attention's CPU kernels, one for each level. Each kernel works on tasks [begin, end), see tasks.h. It
// stores its parts of rows that span several tasks in `pieces`; the joins combine them in a fixed order.
#pragma once

#include "../attention.h"
#include "levels.h"
#include "tile.h"

namespace dgl_ptdnet {

// Arguments of a backward pass of GATv2's scores, which makes the gradient of one side's rows.
struct ScoreSide {
  const EdgeSide& side;
  const void *own, *other;  // rows of this side and of the other ends of its edges
  int64_t own_stride, other_stride;
  void* grad;  // of own
  // [heads * feats] roughly the means of p's columns. Any value gives the right result; one near the mean keeps digits.
  const double* center;
  double sign;  // of center: -1 for p, 1 for q
};

struct AttentionKernels {
  int64_t (*piece_size)(int64_t heads, int64_t feats);  // in numbers of type acc; a task has two pieces
  void (*forward)(const Tile<AttentionForward>&, void* pieces, int64_t begin, int64_t end);
  void (*join_forward)(const Tile<AttentionForward>&, const void* pieces, int64_t begin, int64_t end);
  void (*weights)(const Tile<AttentionForward>&, int64_t begin, int64_t end);
  void (*records)(const AttentionBackward&, int64_t begin, int64_t end);  // destinations [begin, end)
  void (*backward)(const AttentionBackward&, void* pieces, int64_t begin, int64_t end);
  void (*join_backward)(const AttentionBackward&, const void* pieces, int64_t begin, int64_t end);
  void (*scores)(const EdgeScoresForward&, int64_t begin, int64_t end);
  // They add to grad_w [heads * feats].
  void (*scores_backward)(const EdgeScoresBackward&, const ScoreSide&, void* pieces, double* grad_w, int64_t begin,
                          int64_t end);
  void (*join_scores)(const EdgeScoresBackward&, const ScoreSide&, void* pieces, double* grad_w, int64_t begin,
                      int64_t end);
};

PTD_DECLARE_LEVELS(AttentionKernels, attention_kernels)

}  // namespace dgl_ptdnet
