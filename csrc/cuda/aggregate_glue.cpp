// aggregate, maximum and the degrees on a GPU, as torch knows them.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "../degrees_args.h"
#include "aggregate.h"
#include "glue.h"

namespace dgl_ptdnet::cuda {
namespace {

Tensor aggregate_op(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge, const Tensor& out_ptr,
                    const Tensor&, const Tensor&, const Tensor& h, const OptionalTensor& z) {
  const c10::cuda::CUDAGuard guard(h.device());
  AggregateTensors t{h, z, {}};
  const AggregateForward a = t.args({in_ptr, in_src, in_edge}, out_ptr);
  const Tensor space = scratch(h, aggregate_workspace_bytes(a));
  aggregate(a, space.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return t.out;
}

std::tuple<Tensor, Tensor> backward(AggregateBackwardTensors t, const SideTensors& out, bool need_h, bool need_z) {
  const c10::cuda::CUDAGuard guard(t.h.device());
  const AggregateBackward a = t.args(out, need_h, need_z);
  const Tensor space = scratch(t.h, aggregate_backward_workspace_bytes(a));
  aggregate_backward(a, space.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {t.grad_h, t.grad_z};
}

std::tuple<Tensor, Tensor> aggregate_backward_op(const Tensor& grad, const Tensor& out_ptr, const Tensor& out_dst,
                                                 const Tensor& out_edge, const Tensor& h, const OptionalTensor& z,
                                                 bool need_h, bool need_z) {
  return backward({grad, h, z, {}, {}, {}}, {out_ptr, out_dst, out_edge}, need_h, need_z);
}

std::tuple<Tensor, Tensor> maximum_op(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge,
                                      const Tensor& out_ptr, const Tensor&, const Tensor&, const Tensor& h,
                                      const OptionalTensor& z) {
  const c10::cuda::CUDAGuard guard(h.device());
  MaximumTensors t{h, z, {}, {}};
  const MaximumForward a = t.args({in_ptr, in_src, in_edge}, out_ptr);
  const Tensor space = scratch(h, maximum_workspace_bytes(a));
  maximum(a, space.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {t.out, t.arg};
}

std::tuple<Tensor, Tensor> maximum_backward_op(const Tensor& grad, const Tensor& out_ptr, const Tensor& out_dst,
                                               const Tensor& out_edge, const Tensor& h, const OptionalTensor& z,
                                               const Tensor& arg, bool need_h, bool need_z) {
  return backward({grad, h, z, arg, {}, {}}, {out_ptr, out_dst, out_edge}, need_h, need_z);
}

Tensor segment_spread_op(const Tensor& ptr, const Tensor& edge, const Tensor& x) {
  const c10::cuda::CUDAGuard guard(x.device());
  SegmentTensors t{x, {}};
  const SegmentSum a = t.args(ptr, edge, true);
  segment_spread(a, row_dtype(x), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return t.out;
}

std::tuple<Tensor, Tensor, Tensor> normalize_op(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge,
                                                const Tensor& out_ptr, const Tensor&, const Tensor& out_edge,
                                                const Tensor& z, double left, double right, double floor) {
  const c10::cuda::CUDAGuard guard(z.device());
  const Tensor none = at::empty({0}, z.options());
  NormalizeTensors t{z, left != 0 ? segment_sum(out_ptr, out_edge, z) : none,
                     right != 0 ? segment_sum(in_ptr, in_edge, z) : none};
  Normalize a = t.args({in_ptr, in_src, in_edge}, out_ptr, left, right, floor);
  const Tensor w = at::empty_like(t.z);
  a.w = w.mutable_data_ptr();
  normalize(a, row_dtype(z), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {w, t.out_deg, t.in_deg};
}

Tensor normalize_backward_op(const Tensor& grad, const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge,
                             const Tensor& out_ptr, const Tensor&, const Tensor& out_edge, const Tensor& w,
                             const Tensor& out_deg, const Tensor& in_deg, double left, double right, double floor) {
  const c10::cuda::CUDAGuard guard(grad.device());
  const Tensor g = grad.contiguous(), product = g.mul(w);
  NormalizeTensors t{product, out_deg, in_deg};
  NormalizeBackward a{};
  static_cast<Normalize&>(a) = t.args({in_ptr, in_src, in_edge}, out_ptr, left, right, floor);
  const Tensor out_sum = left != 0 ? segment_sum(out_ptr, out_edge, product) : Tensor();
  const Tensor in_sum = right != 0 ? segment_sum(in_ptr, in_edge, product) : Tensor();
  const Tensor grad_z = at::empty_like(g);
  a.grad = g.const_data_ptr(), a.grad_z = grad_z.mutable_data_ptr();
  a.out_sum = left != 0 ? out_sum.const_data_ptr() : nullptr;
  a.in_sum = right != 0 ? in_sum.const_data_ptr() : nullptr;
  normalize_backward(a, row_dtype(g), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return grad_z;
}

}  // namespace

Tensor segment_sum(const Tensor& ptr, const Tensor& edge, const Tensor& x) {
  const c10::cuda::CUDAGuard guard(x.device());
  SegmentTensors t{x, {}};
  const SegmentSum a = t.args(ptr, edge, false);
  const Tensor space = scratch(x, segment_sum_workspace_bytes(a));
  segment_sum(a, row_dtype(x), space.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return t.out;
}

TORCH_LIBRARY_IMPL(dgl_ptdnet, CUDA, m) {
  m.impl("aggregate", aggregate_op);
  m.impl("aggregate_backward", aggregate_backward_op);
  m.impl("maximum", maximum_op);
  m.impl("maximum_backward", maximum_backward_op);
  m.impl("segment_sum", static_cast<Tensor (*)(const Tensor&, const Tensor&, const Tensor&)>(segment_sum));
  m.impl("segment_spread", segment_spread_op);
  m.impl("normalize", normalize_op);
  m.impl("normalize_backward", normalize_backward_op);
}

}  // namespace dgl_ptdnet::cuda
