// The edge gate's CPU kernels, as the levels offer them and as the glue calls them.
#pragma once

#include "../edge_gate.h"

namespace dgl_ptdnet {

// Work is cut at multiples of `task_edges` positions (or slots), whatever the number of threads, so that results
// do not depend on it and a hub is shared by all threads.
constexpr int64_t task_edges = 2048;

inline int64_t count_tasks(int64_t edges) { return (edges + task_edges - 1) / task_edges; }

// Where the tasks of one backward pass leave what is not theirs alone.
struct Shares {
  const double* center;  // [hidden] about the mean of p's columns: any value is right, a near one loses no digits
  double* pieces;  // [tasks, 2, hidden] sums of a row that began in an earlier task; of one that goes on in a later
  double* grad_w;  // [tasks, hidden]
  double* grad_c;  // [tasks]
  void* by_edge;   // [E] acc: dL/dlogit in the caller's order, and the bias's gradient
};

struct EdgeGateKernels {
  // Tasks [begin, end) of positions: logits without c and bias, in the place of z. Then of the caller's edges: z;
  // penalty[task] gets that task's sum.
  void (*logits_by_dst)(const EdgeGateForward&, int64_t begin, int64_t end);
  void (*gates_by_edge)(const EdgeGateForward&, int64_t begin, int64_t end, double* penalty);
  // dL/dlogit in the caller's order; then by position and into grad_q; then into grad_p.
  void (*backward_by_edge)(const EdgeGateBackward&, const Shares&, int64_t begin, int64_t end);
  void (*backward_by_dst)(const EdgeGateBackward&, const Shares&, int64_t begin, int64_t end);
  void (*backward_by_src)(const EdgeGateBackward&, const Shares&, int64_t begin, int64_t end);
  // Rows that several tasks share, after their pass: the pieces are added in order. grad_w [hidden].
  void (*join_dst)(const EdgeGateBackward&, const Shares&, double* grad_w);
  void (*join_src)(const EdgeGateBackward&, const Shares&, double* grad_w);
};

// The kernels of a level for rows of `dtype`; only `portable` has them for f64.
namespace avx512 {
const EdgeGateKernels& edge_gate(Dtype dtype, bool leaky);
}
namespace avx2 {
const EdgeGateKernels& edge_gate(Dtype dtype, bool leaky);
}
namespace portable {
const EdgeGateKernels& edge_gate(Dtype dtype, bool leaky);
}

}  // namespace dgl_ptdnet
