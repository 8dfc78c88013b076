// Attention on a GPU, as torch knows it.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "../attention_args.h"
#include "attention.h"
#include "glue.h"

namespace dgl_ptdnet::cuda {
namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_op(const Tensor& in_ptr, const Tensor& in_src,
                                                        const Tensor& in_edge, const Tensor& out_ptr,
                                                        const Tensor& out_dst, const Tensor& out_edge, const Tensor& h,
                                                        const OptionalTensor& el, const OptionalTensor& er,
                                                        const OptionalTensor& scores, const OptionalTensor& z,
                                                        double negative_slope, int64_t heads, bool weights) {
  const c10::cuda::CUDAGuard guard(h.device());
  AttentionForwardTensors t{
      {h, el, er, scores, z, {in_ptr, in_src, in_edge}, {out_ptr, out_dst, out_edge}}, {}, {}, {}, {}};
  const AttentionForward a = t.args(negative_slope, heads, weights);
  const Tensor space = scratch(h, attention_workspace_bytes(a));
  attention(a, space.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {t.out, t.max, t.sum, t.weights};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> attention_backward_op(
    const OptionalTensor& grad, const OptionalTensor& grad_weights, const Tensor& in_ptr, const Tensor& in_src,
    const Tensor& in_edge, const Tensor& out_ptr, const Tensor& out_dst, const Tensor& out_edge, const Tensor& h,
    const OptionalTensor& el, const OptionalTensor& er, const OptionalTensor& scores, const OptionalTensor& z,
    const Tensor& out, const Tensor& max, const Tensor& sum, const Tensor& weights, double negative_slope,
    int64_t heads, bool need_z) {
  const c10::cuda::CUDAGuard guard(h.device());
  AttentionBackwardTensors t{{h, el, er, scores, z, {in_ptr, in_src, in_edge}, {out_ptr, out_dst, out_edge}},
                             grad ? *grad : at::empty_like(out).zero_(),
                             grad_weights,
                             out,
                             max,
                             sum,
                             {},
                             {},
                             {},
                             {},
                             {},
                             {}};
  if (grad_weights) {
    TORCH_CHECK_VALUE(weights.sizes() == grad_weights->sizes(), "the forward kept no weights: call it with weights");
    t.shift = segment_sum(in_ptr, in_edge, weights.mul(*grad_weights));
  }
  const AttentionBackward a = t.args(negative_slope, heads, need_z);
  const Tensor space = scratch(h, attention_backward_workspace_bytes(a));
  attention_backward(a, space.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const Tensor none = at::empty({0, heads}, t.max.options());
  const Tensor grad_er = er ? segment_sum(in_ptr, in_edge, t.grad_scores) : none;
  return {t.grad_h, t.grad_el, grad_er, scores ? t.grad_scores : none, t.grad_z};
}

Tensor edge_scores_op(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge, const Tensor& out_ptr,
                      const Tensor& out_dst, const Tensor& out_edge, const Tensor& p, const Tensor& q, const Tensor& w,
                      double negative_slope) {
  const c10::cuda::CUDAGuard guard(p.device());
  EdgeScoresForwardTensors t{{p, q, w, {in_ptr, in_src, in_edge}, {out_ptr, out_dst, out_edge}}, {}};
  const EdgeScoresForward a = t.args(negative_slope);
  const Tensor space = scratch(p, edge_scores_workspace_bytes(a));
  edge_scores(a, space.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return t.scores;
}

std::tuple<Tensor, Tensor, Tensor> edge_scores_backward_op(const Tensor& grad, const Tensor& in_ptr,
                                                           const Tensor& in_src, const Tensor& in_edge,
                                                           const Tensor& out_ptr, const Tensor& out_dst,
                                                           const Tensor& out_edge, const Tensor& p, const Tensor& q,
                                                           const Tensor& w, double negative_slope) {
  const c10::cuda::CUDAGuard guard(p.device());
  EdgeScoresBackwardTensors t{{p, q, w, {in_ptr, in_src, in_edge}, {out_ptr, out_dst, out_edge}}, grad, {}, {}, {}};
  const EdgeScoresBackward a = t.args(negative_slope);
  const Tensor space = scratch(p, edge_scores_backward_workspace_bytes(a));
  edge_scores_backward(a, space.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {t.grad_p, t.grad_q, t.grad_w};
}

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, CUDA, m) {
  m.impl("attention", attention_op);
  m.impl("attention_backward", attention_backward_op);
  m.impl("edge_scores", edge_scores_op);
  m.impl("edge_scores_backward", edge_scores_backward_op);
}

}  // namespace dgl_ptdnet::cuda
