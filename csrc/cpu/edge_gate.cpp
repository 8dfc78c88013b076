// The edge gate on a CPU: which kernels, over which threads.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../edge_gate_args.h"
#include "edge_gate_kernels.h"
#include "level.h"

namespace dgl_ptdnet {
namespace {

const EdgeGateKernels& kernels(const EdgeGateInputs& a) {
  const bool leaky = a.negative_slope != 0;
#if defined(__x86_64__)
  const Level level = cpu_level();
  if (a.dtype != Dtype::f64 && level == Level::avx512) return avx512::edge_gate(a.dtype, leaky);
  if (a.dtype != Dtype::f64 && level == Level::avx2) return avx2::edge_gate(a.dtype, leaky);
#endif
  return portable::edge_gate(a.dtype, leaky);
}

void store(void* out, double value, Dtype dtype) {
  if (dtype == Dtype::f64) {
    *static_cast<double*>(out) = value;
  } else {
    *static_cast<float*>(out) = static_cast<float>(value);
  }
}

std::tuple<Tensor, Tensor, Tensor, Tensor> edge_gate(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_dst,
                                                     const Tensor& in_edge, const Tensor& out_ptr,
                                                     const Tensor& out_pos, const Tensor& p, const Tensor& q,
                                                     const Tensor& w, const Tensor& c, const OptionalTensor& edge_bias,
                                                     const OptionalTensor& noise, const OptionalTensor& edge_ids,
                                                     double negative_slope, double tau, double gamma, double zeta,
                                                     bool penalty, bool save) {
  ForwardTensors t{{p, q, w}, c, edge_bias, noise, edge_ids, {}, {}, {}, {}};
  const EdgeGateForward a =
      t.args({in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos}, negative_slope, tau, gamma, zeta, penalty, save);
  const EdgeGateKernels& k = kernels(a);
  const int64_t tasks = count_tasks(a.index.edges);
  std::vector<double> kept(penalty ? tasks : 0);
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { k.logits_by_dst(a, begin, end); });
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
    k.gates_by_edge(a, begin, end, penalty ? kept.data() : nullptr);
  });
  if (penalty) {
    double sum = 0;
    for (double part : kept) sum += part;
    store(a.penalty, sum, a.dtype);
  }
  return t.outputs();
}

// About the mean of p's columns, from at most 64 rows; what is not finite does not count.
std::vector<double> column_centers(const Tensor& p) {
  const int64_t rows = p.size(0), h = p.size(1), step = std::max<int64_t>(1, rows / 64);
  std::vector<double> sum(h), count(h);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, p.scalar_type(), "column_centers", [&] {
    for (int64_t row = 0; row < rows; row += step) {
      const scalar_t* x = p.const_data_ptr<scalar_t>() + row * p.stride(0);
      for (int64_t k = 0; k < h; ++k) {
        const double value = static_cast<double>(x[k]);
        if (std::isfinite(value)) sum[k] += value, count[k] += 1;
      }
    }
  });
  for (int64_t k = 0; k < h; ++k) sum[k] /= std::max(1.0, count[k]);
  return sum;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> edge_gate_backward(
    const OptionalTensor& grad_z, const OptionalTensor& grad_penalty, const Tensor& in_ptr, const Tensor& in_src,
    const Tensor& in_dst, const Tensor& in_edge, const Tensor& out_ptr, const Tensor& out_pos, const Tensor& p,
    const Tensor& q, const Tensor& w, const Tensor& z, const Tensor& mask, const Tensor& logit, double negative_slope,
    double tau, double gamma, double zeta, bool noisy, bool bias) {
  BackwardTensors t{{p, q, w}, grad_z, grad_penalty, z, mask, logit, {}, {}, {}, {}, {}};
  EdgeGateBackward a =
      t.args({in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos}, negative_slope, tau, gamma, zeta, noisy, bias);
  const int64_t tasks = count_tasks(a.index.edges), h = a.hidden;
  if (tasks == 0) {
    t.grad_p.zero_(), t.grad_q.zero_(), t.grad_w.zero_(), t.grad_c.zero_();
    return t.outputs();
  }
  const EdgeGateKernels& k = kernels(a);
  const Tensor records =
      empty({a.index.edges, record_bytes(h, t.grad_w.element_size())}, t.grad_w.options().dtype(at::kByte));
  a.records = records.mutable_data_ptr();
  Tensor by_edge = bias ? t.grad_bias : empty({a.index.edges}, t.grad_w.options());
  const std::vector<double> center = column_centers(t.p);
  std::vector<double> pieces(2 * tasks * h), task_w(tasks * h), task_c(tasks), total_w(h);
  const Shares shares{center.data(), pieces.data(), task_w.data(), task_c.data(), by_edge.mutable_data_ptr()};
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { k.backward_by_edge(a, shares, begin, end); });
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { k.backward_by_dst(a, shares, begin, end); });
  k.join_dst(a, shares, total_w.data());
  by_edge.reset();  // before grad_p's pages are touched
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { k.backward_by_src(a, shares, begin, end); });
  k.join_src(a, shares, total_w.data());
  double total_c = 0;
  for (double part : task_c) total_c += part;
  store(a.grad_c, total_c, a.dtype);
  t.grad_w.copy_(at::from_blob(total_w.data(), {h}, at::kDouble));
  return t.outputs();
}

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, CPU, m) {
  m.impl("edge_gate", edge_gate);
  m.impl("edge_gate_backward", edge_gate_backward);
}

}  // namespace dgl_ptdnet
