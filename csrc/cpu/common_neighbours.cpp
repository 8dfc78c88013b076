// From tensors to the kernel of common neighbours, and its work on all threads.
#include "common_neighbours.h"

#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>

#include "../edge_gate_args.h"

namespace dgl_ptdnet {
namespace {

constexpr int64_t pairs_a_task = 512;

void check_ends(const char* name, const Tensor& ends, int64_t count, int64_t nodes) {
  TORCH_CHECK_TYPE(ends.scalar_type() == at::kLong, name, " must be int64; got ", ends.scalar_type());
  TORCH_CHECK_VALUE(ends.dim() == 1 && ends.size(0) == count, "u and v must be 1-D and of one length; got ", name,
                    " of shape ", ends.sizes());
  const int64_t* ids = ends.const_data_ptr<int64_t>();
  const int64_t* bad = std::find_if(ids, ids + count, [=](int64_t id) { return id < 0 || id >= nodes; });
  if (bad != ids + count) id_out_of_range(name, *bad, bad - ids, nodes);
}

// Calls run(begin, end) for stretches of [0, tasks); a thread that is done takes the next, as some are much longer.
template <class Run>
void for_tasks(int64_t tasks, const Run& run) {
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min<int64_t>(tasks, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    for (int64_t task = next++; task < tasks; task = next++) run(task);
  });
}

Tensor common_neighbours_cpu(const Tensor& ptr, const Tensor& node, const Tensor& edge, const Tensor& weight,
                             const Tensor& u, const Tensor& v) {
  for (const Tensor* t : {&ptr, &node, &edge})
    TORCH_CHECK_TYPE(t->scalar_type() == at::kInt && t->is_contiguous() && t->dim() == 1,
                     "the index must hold contiguous int32 tensors, as edge_index returns them");
  const int64_t nodes = ptr.size(0) - 1, edges = node.size(0), pairs = u.size(0);
  TORCH_CHECK_VALUE(nodes >= 0 && edge.size(0) == edges, "the index's tensors disagree on the number of edges");
  TORCH_CHECK_TYPE(weight.scalar_type() == at::kDouble, "weight must be float64; got ", weight.scalar_type());
  TORCH_CHECK_VALUE(weight.dim() == 1 && weight.size(0) == edges, "weight must be [E] with E = ", edges,
                    " edges; got shape ", weight.sizes());
  const Tensor w = weight.contiguous(), us = u.contiguous(), vs = v.contiguous();
  check_ends("u", us, pairs, nodes);
  check_ends("v", vs, pairs, nodes);

  CommonNeighbours a{};
  a.ptr = ptr.const_data_ptr<int32_t>();
  a.node = node.const_data_ptr<int32_t>(), a.edge = edge.const_data_ptr<int32_t>();
  std::atomic<bool> ascending{true};
  at::parallel_for(0, nodes, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      if (!std::is_sorted(a.node + a.ptr[row], a.node + a.ptr[row + 1])) ascending = false;
  });
  TORCH_CHECK_VALUE(ascending, "the sources of a destination's edges must be in ascending order: make the index of ",
                    "edges that are sorted by source");
  const Tensor out = at::empty({pairs}, w.options());
  a.weight = w.const_data_ptr<double>();
  a.u = us.const_data_ptr<int64_t>(), a.v = vs.const_data_ptr<int64_t>();
  a.out = out.mutable_data_ptr<double>();
  for_tasks((pairs + pairs_a_task - 1) / pairs_a_task, [&](int64_t task) {
    common_neighbours(a, task * pairs_a_task, std::min(pairs, (task + 1) * pairs_a_task));
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, CPU, m) { m.impl("common_neighbours", common_neighbours_cpu); }

}  // namespace dgl_ptdnet
