// The edge gate's CPU kernels, as the levels offer them and as the glue calls them.
#pragma once

#include "../edge_gate.h"
#include "levels.h"

namespace dgl_ptdnet {

// Edges of a task.
constexpr int64_t gate_task_edges = 2048;

// The pass over sources meets edges in random order: a number and a mask that lie together are one access to memory.
inline bool has_mask(int64_t hidden) { return hidden > 1 && mask_bytes(hidden) <= 4; }
inline int64_t record_bytes(int64_t hidden, int64_t acc_bytes) { return has_mask(hidden) ? 2 * acc_bytes : acc_bytes; }

// Scratch of one backward pass, shared by its tasks.
struct GateScratch {
  const double* center;  // [hidden] about the mean of p's columns: any value is right, a near one loses no digits
  double* pieces;  // [tasks, 2, hidden] sums of a row that began in an earlier task; of one that goes on in a later
  double* grad_w;  // [tasks, hidden]
  double* grad_c;  // [tasks]
  void* by_edge;   // [E] acc: dL/dlogit in the caller's order, and the bias's gradient
  void* records;   // [E, record_bytes], by position: dL/dlogit and, where it is short, the mask beside it
};

struct EdgeGateKernels {
  // Tasks [begin, end) of positions: logits without c and bias, in the place of z. Then of the caller's edges: z;
  // penalty[task] gets that task's sum.
  void (*logits_by_dst)(const EdgeGateForward&, int64_t begin, int64_t end);
  void (*gates_by_edge)(const EdgeGateForward&, int64_t begin, int64_t end, double* penalty);
  // dL/dlogit in the caller's order; then by position and into grad_q; then into grad_p.
  void (*backward_by_edge)(const EdgeGateBackward&, const GateScratch&, int64_t begin, int64_t end);
  void (*backward_by_dst)(const EdgeGateBackward&, const GateScratch&, int64_t begin, int64_t end);
  void (*backward_by_src)(const EdgeGateBackward&, const GateScratch&, int64_t begin, int64_t end);
  // Rows that several tasks share, after their pass: the pieces are added in order. grad_w [hidden].
  void (*join_dst)(const EdgeGateBackward&, const GateScratch&, double* grad_w);
  void (*join_src)(const EdgeGateBackward&, const GateScratch&, double* grad_w);
};

PTD_DECLARE_LEVELS(EdgeGateKernels, relu_gate_kernels)
PTD_DECLARE_LEVELS(EdgeGateKernels, leaky_gate_kernels)

}  // namespace dgl_ptdnet
