// The tables of the edge gate's CPU kernels, one for each level.
#pragma once

#include "../edge_gate.h"
#include "levels.h"

namespace dgl_ptdnet {

// The number of edges of a task.
constexpr int64_t gate_task_edges = 2048;

// The pass over sources meets edges in random order. A short mask is stored next to its edge's gradient, so that
// both are one access to memory.
inline bool has_mask(int64_t hidden) { return hidden > 1 && mask_bytes(hidden) <= 4; }
inline int64_t record_bytes(int64_t hidden, int64_t acc_bytes) { return has_mask(hidden) ? 2 * acc_bytes : acc_bytes; }

// Scratch of a backward pass that its tasks share.
struct GateScratch {
  const double* center;  // [hidden] roughly the means of p's columns: see column_centers.h
  // [tasks, 2, hidden]: the partial sums of a row that began in an earlier task, and of a row that continues in a later
  // one.
  double* pieces;
  double* grad_w;  // [tasks, hidden]
  double* grad_c;  // [tasks]
  void* by_edge;   // [E] acc: dL/dlogit in the caller's order, which is also edge_bias' gradient
  void* records;   // [E, record_bytes], by position: dL/dlogit and, if it is short, the mask
};

struct EdgeGateKernels {
  // logits_by_dst works on tasks [begin, end) of positions and writes logits without c and bias to z. gates_by_edge
  // works on tasks of edges in the caller's order and turns them into gates; penalty[task] becomes the task's expected
  // number of open gates.
  void (*logits_by_dst)(const EdgeGateForward&, int64_t begin, int64_t end);
  void (*gates_by_edge)(const EdgeGateForward&, int64_t begin, int64_t end, double* penalty);
  // In this order: dL/dlogit in the caller's order; the records and grad_q; grad_p.
  void (*backward_by_edge)(const EdgeGateBackward&, const GateScratch&, int64_t begin, int64_t end);
  void (*backward_by_dst)(const EdgeGateBackward&, const GateScratch&, int64_t begin, int64_t end);
  void (*backward_by_src)(const EdgeGateBackward&, const GateScratch&, int64_t begin, int64_t end);
  // After the pass over a side: finish the rows that span several tasks, whose pieces are added in order. They add to
  // grad_w [hidden].
  void (*join_dst)(const EdgeGateBackward&, const GateScratch&, double* grad_w);
  void (*join_src)(const EdgeGateBackward&, const GateScratch&, double* grad_w);
};

PTD_DECLARE_LEVELS(EdgeGateKernels, relu_gate_kernels)
PTD_DECLARE_LEVELS(EdgeGateKernels, leaky_gate_kernels)

}  // namespace dgl_ptdnet
