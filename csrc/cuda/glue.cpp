// The operators on a GPU, as torch knows them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "../edge_gate_args.h"
#include "edge_gate.h"

namespace dgl_ptdnet::cuda {
namespace {

// Scratch of the current stream. Memory that the caching allocator hands out again later is reused in stream order.
Tensor workspace(const Tensor& like, size_t bytes) {
  return at::empty({static_cast<int64_t>(bytes)}, like.options().dtype(at::kByte));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> forward(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_dst,
                                                   const Tensor& in_edge, const Tensor& out_ptr, const Tensor& out_pos,
                                                   const Tensor& p, const Tensor& q, const Tensor& w, const Tensor& c,
                                                   const OptionalTensor& edge_bias, const OptionalTensor& noise,
                                                   const OptionalTensor& edge_ids, double negative_slope, double tau,
                                                   double gamma, double zeta, bool penalty, bool save) {
  const c10::cuda::CUDAGuard guard(p.device());
  ForwardTensors t{{p, q, w}, c, edge_bias, noise, edge_ids, {}, {}, {}, {}};
  const EdgeGateForward a =
      t.args({in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos}, negative_slope, tau, gamma, zeta, penalty, save);
  const Tensor scratch = workspace(p, forward_workspace_bytes(a));
  edge_gate_forward(a, scratch.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return t.outputs();
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> backward(
    const OptionalTensor& grad_z, const OptionalTensor& grad_penalty, const Tensor& in_ptr, const Tensor& in_src,
    const Tensor& in_dst, const Tensor& in_edge, const Tensor& out_ptr, const Tensor& out_pos, const Tensor& p,
    const Tensor& q, const Tensor& w, const Tensor& z, const Tensor& mask, const Tensor& logit, double negative_slope,
    double tau, double gamma, double zeta, bool noisy, bool bias) {
  const c10::cuda::CUDAGuard guard(p.device());
  BackwardTensors t{{p, q, w}, grad_z, grad_penalty, z, mask, logit, {}, {}, {}, {}, {}};
  const EdgeGateBackward a =
      t.args({in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos}, negative_slope, tau, gamma, zeta, noisy, bias);
  const Tensor scratch = workspace(p, backward_workspace_bytes(a));
  edge_gate_backward(a, scratch.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return t.outputs();
}

// [count + 1] where the edges of each id start, in their order.
Tensor starts(const Tensor& sorted_ids, int64_t count) {
  return at::searchsorted(sorted_ids, at::arange(count + 1, sorted_ids.options()), /*out_int32=*/true);
}

void check_ids(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst) {
  if (src.numel() == 0) return;
  const auto [low_src, high_src] = at::aminmax(src);
  const auto [low_dst, high_dst] = at::aminmax(dst);
  const Tensor ends = at::stack({low_src, high_src, low_dst, high_dst}).to(at::kLong).cpu();  // the one wait
  const int64_t* end = ends.const_data_ptr<int64_t>();
  const auto complain = [](const char* name, const Tensor& ids, int64_t count) {
    const int64_t edge = at::logical_or(ids < 0, ids >= count).nonzero()[0].item<int64_t>();
    id_out_of_range(name, ids[edge].item<int64_t>(), edge, count);
  };
  if (end[0] < 0 || end[1] >= num_src) complain("src", src, num_src);
  if (end[2] < 0 || end[3] >= num_dst) complain("dst", dst, num_dst);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> index(const Tensor& src, const Tensor& dst, int64_t num_src,
                                                                 int64_t num_dst) {
  check_edge_list(src, dst, num_src, num_dst);
  const c10::cuda::CUDAGuard guard(src.device());
  check_ids(src, dst, num_src, num_dst);
  const auto [in_dst, in_edge] = at::sort(dst.to(at::kInt), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Tensor in_src = src.to(at::kInt).index_select(0, in_edge);
  const auto [out_src, out_pos] = at::sort(in_src, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  return {starts(in_dst, num_dst), in_src, in_dst, in_edge.to(at::kInt), starts(out_src, num_src),
          out_pos.to(at::kInt)};
}

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, CUDA, m) {
  m.impl("edge_index", index);
  m.impl("edge_gate", forward);
  m.impl("edge_gate_backward", backward);
}

}  // namespace dgl_ptdnet::cuda
