// Runs the edge gate on a CPU: chooses the kernels and divides their tasks among threads.
#include <cstring>
#include <vector>

#include "column_centers.h"
#include "device.h"
#include "edge_gate_kernels.h"
#include "tasks.h"

namespace dgl_ptdnet {
namespace {

const EdgeGateKernels& kernels(const EdgeGateInputs& a) {
  return a.options.negative_slope == 0 ? PTD_KERNELS(relu_gate_kernels, a.dtype)
                                       : PTD_KERNELS(leaky_gate_kernels, a.dtype);
}

void store(void* out, double value, Dtype dtype) {
  if (dtype == Dtype::f64) {
    *static_cast<double*>(out) = value;
  } else {
    *static_cast<float*>(out) = static_cast<float>(value);
  }
}

}  // namespace

void Cpu::run(const EdgeGateForward& a, const Tensor&) {
  const EdgeGateKernels& k = kernels(a);
  const int64_t tasks = count_tasks<gate_task_edges>(a.index.edges);
  std::vector<double> open(a.penalty ? tasks : 0);
  Threads()(tasks, 1, [&](int64_t begin, int64_t end) { k.logits_by_dst(a, begin, end); });
  Threads()(tasks, 1,
            [&](int64_t begin, int64_t end) { k.gates_by_edge(a, begin, end, a.penalty ? open.data() : nullptr); });
  if (a.penalty) {
    double sum = 0;
    for (double part : open) sum += part;
    store(a.penalty, sum, a.dtype);
  }
}

void Cpu::run(const EdgeGateBackward& a, const Tensor& rows) {
  const int64_t tasks = count_tasks<gate_task_edges>(a.index.edges), h = a.hidden;
  std::vector<double> total_w(h);
  double total_c = 0;
  if (tasks == 0) {
    if (a.grad_p) std::memset(a.grad_p, 0, a.index.num_src * h * rows.element_size());
    if (a.grad_q) std::memset(a.grad_q, 0, a.index.num_dst * h * rows.element_size());
  } else {
    const EdgeGateKernels& k = kernels(a);
    const auto acc = rows.options().dtype(acc_type(rows));
    const int64_t acc_bytes = static_cast<int64_t>(acc.dtype().itemsize());
    const Tensor records = empty({a.index.edges, record_bytes(h, acc_bytes)}, acc.dtype(at::kByte));
    Tensor by_edge;
    if (!a.grad_bias) by_edge = empty({a.index.edges}, acc);
    const std::vector<double> center = column_centers(a.p, a.dtype, a.p_stride, a.index.num_src, h);
    std::vector<double> pieces(2 * tasks * h), task_w(tasks * h), task_c(tasks);
    const GateScratch scratch{center.data(),
                              pieces.data(),
                              task_w.data(),
                              task_c.data(),
                              a.grad_bias ? a.grad_bias : by_edge.mutable_data_ptr(),
                              records.mutable_data_ptr()};
    Threads()(tasks, 1, [&](int64_t begin, int64_t end) { k.backward_by_edge(a, scratch, begin, end); });
    Threads()(tasks, 1, [&](int64_t begin, int64_t end) { k.backward_by_dst(a, scratch, begin, end); });
    k.join_dst(a, scratch, total_w.data());
    by_edge.reset();  // frees its memory before grad_p needs some
    Threads()(tasks, 1, [&](int64_t begin, int64_t end) { k.backward_by_src(a, scratch, begin, end); });
    k.join_src(a, scratch, total_w.data());
    for (double part : task_c) total_c += part;
  }
  store(a.grad_c, total_c, a.dtype);
  for (int64_t k = 0; k < h; ++k)
    store(static_cast<char*>(a.grad_w) + k * (a.dtype == Dtype::f64 ? 8 : 4), total_w[k], a.dtype);
}

}  // namespace dgl_ptdnet
