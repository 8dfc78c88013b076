// Attention on a CPU: which kernels, over which threads.
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "../attention_args.h"
#include "attention_kernels.h"
#include "degrees.h"
#include "level.h"
#include "parts.h"
#include "tasks.h"

namespace dgl_ptdnet {
namespace {

const AttentionKernels& kernels(Dtype dtype) {
#if defined(__x86_64__)
  const Level level = cpu_level();
  if (dtype != Dtype::f64 && level == Level::avx512) return avx512::attention(dtype);
  if (dtype != Dtype::f64 && level == Level::avx2) return avx2::attention(dtype);
#endif
  return portable::attention(dtype);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge,
                                                     const Tensor& out_ptr, const Tensor& out_dst,
                                                     const Tensor& out_edge, const Tensor& h, const OptionalTensor& el,
                                                     const OptionalTensor& er, const OptionalTensor& scores,
                                                     const OptionalTensor& z, double negative_slope, int64_t heads,
                                                     bool weights) {
  AttentionForwardTensors t{
      {h, el, er, scores, z, {in_ptr, in_src, in_edge}, {out_ptr, out_dst, out_edge}}, {}, {}, {}, {}};
  const AttentionForward a = t.args(negative_slope, heads, weights);
  const int64_t tasks = count_row_tasks(a.in.edges);
  if (tasks == 0) return {t.out.zero_(), t.max.zero_(), t.sum.zero_(), t.weights};
  const AttentionKernels& k = kernels(a.dtype);
  for_parts(t.h, a.in.edges, a.heads, a.feats, true, [&](const Part& part, const Tensor& rows) {
    Tile<AttentionForward> tile = part.of(a, a.z_heads);
    const int64_t skipped = part.head * t.max.element_size();
    tile.h = rows.const_data_ptr(), tile.h_stride = rows.stride(0);
    move(tile.result, part.head * a.feats * t.h.element_size());
    for (const void** x : {&tile.el, &tile.er, &tile.scores}) move(*x, skipped);
    for (void** x : {&tile.max, &tile.sum, &tile.weights}) move(*x, skipped);
    if (a.z_heads > 1) tile.z_heads = part.heads, move(tile.z, skipped);
    const Tensor space = empty({tasks, 2, k.piece_size(part.heads, part.feats)}, t.max.options());
    void* pieces = space.mutable_data_ptr();
    at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { k.forward(tile, pieces, begin, end); });
    at::parallel_for(0, tasks, 64, [&](int64_t begin, int64_t end) { k.join_forward(tile, pieces, begin, end); });
    if (weights) at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { k.weights(tile, begin, end); });
  });
  return {t.out, t.max, t.sum, t.weights};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> attention_backward(
    const OptionalTensor& grad, const OptionalTensor& grad_weights, const Tensor& in_ptr, const Tensor& in_src,
    const Tensor& in_edge, const Tensor& out_ptr, const Tensor& out_dst, const Tensor& out_edge, const Tensor& h,
    const OptionalTensor& el, const OptionalTensor& er, const OptionalTensor& scores, const OptionalTensor& z,
    const Tensor& out, const Tensor& max, const Tensor& sum, const Tensor& weights, double negative_slope,
    int64_t heads, bool need_z) {
  AttentionBackwardTensors t{{h, el, er, scores, z, {in_ptr, in_src, in_edge}, {out_ptr, out_dst, out_edge}},
                             grad ? *grad : empty_like(out).zero_(),
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
  Tensor grad_er = empty({0, heads}, t.max.options());
  const int64_t tasks = count_row_tasks(a.out.edges);
  if (tasks == 0) {
    t.grad_h.zero_(), t.grad_el.zero_();
    if (er) grad_er = empty({a.in.rows, heads}, t.max.options()).zero_();
    return {t.grad_h, t.grad_el, grad_er, t.grad_scores, t.grad_z};
  }
  const AttentionKernels& k = kernels(a.dtype);
  const Tensor space = empty({tasks, 2, k.piece_size(a.heads, a.feats)}, t.max.options());
  void* pieces = space.mutable_data_ptr();
  at::parallel_for(0, a.in.rows, 256, [&](int64_t begin, int64_t end) { k.records(a, begin, end); });
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { k.backward(a, pieces, begin, end); });
  at::parallel_for(0, tasks, 64, [&](int64_t begin, int64_t end) { k.join_backward(a, pieces, begin, end); });
  if (er) grad_er = segment_sum(in_ptr, in_edge, t.grad_scores);
  return {t.grad_h, t.grad_el, grad_er, scores ? t.grad_scores : empty({0, heads}, t.max.options()), t.grad_z};
}

Tensor edge_scores(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge, const Tensor& out_ptr,
                   const Tensor& out_dst, const Tensor& out_edge, const Tensor& p, const Tensor& q, const Tensor& w,
                   double negative_slope) {
  EdgeScoresForwardTensors t{{p, q, w, {in_ptr, in_src, in_edge}, {out_ptr, out_dst, out_edge}}, {}};
  const EdgeScoresForward a = t.args(negative_slope);
  const AttentionKernels& k = kernels(a.dtype);
  at::parallel_for(0, count_row_tasks(a.in.edges), 1, [&](int64_t begin, int64_t end) { k.scores(a, begin, end); });
  return t.scores;
}

// About the mean of p's columns, from at most 64 rows; what is not finite does not count.
Tensor column_centers(const Tensor& p) {
  if (p.size(0) == 0) return empty({p.size(1)}, at::kDouble).zero_();
  const Tensor sample = p.slice(0, 0, p.size(0), std::max<int64_t>(1, p.size(0) / 64)).to(at::kDouble);
  return sample.masked_fill(sample.isfinite().logical_not(), 0).mean(0).contiguous();
}

std::tuple<Tensor, Tensor, Tensor> edge_scores_backward(const Tensor& grad, const Tensor& in_ptr, const Tensor& in_src,
                                                        const Tensor& in_edge, const Tensor& out_ptr,
                                                        const Tensor& out_dst, const Tensor& out_edge, const Tensor& p,
                                                        const Tensor& q, const Tensor& w, double negative_slope) {
  EdgeScoresBackwardTensors t{{p, q, w, {in_ptr, in_src, in_edge}, {out_ptr, out_dst, out_edge}}, grad, {}, {}, {}};
  const EdgeScoresBackward a = t.args(negative_slope);
  const int64_t tasks = count_row_tasks(a.in.edges), width = a.heads * a.feats;
  if (tasks == 0) return {t.grad_p.zero_(), t.grad_q.zero_(), t.grad_w.zero_()};
  const AttentionKernels& k = kernels(a.dtype);
  const Tensor space = empty({tasks, 2, k.piece_size(a.heads, a.feats)}, t.w.options());
  const Tensor centers = column_centers(t.p);
  const double* center = centers.const_data_ptr<double>();
  void* pieces = space.mutable_data_ptr();
  // The weight's gradient is summed by parts of the tasks, as many whatever the number of threads.
  const int64_t parts = std::min<int64_t>(tasks, 64);
  std::vector<double> part_w(parts * width), total(width);
  for (const ScoreSide& side : {ScoreSide{a.out, a.p, a.q, a.p_stride, a.q_stride, a.grad_p, center, -1},
                                ScoreSide{a.in, a.q, a.p, a.q_stride, a.p_stride, a.grad_q, center, 1}}) {
    for (const auto pass : {k.scores_backward, k.join_scores}) {
      at::parallel_for(0, parts, 1, [&](int64_t first, int64_t past) {
        for (int64_t part = first; part < past; ++part)
          pass(a, side, pieces, part_w.data() + part * width, tasks * part / parts, tasks * (part + 1) / parts);
      });
    }
  }
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t i = 0; i < width; ++i) total[i] += part_w[part * width + i];
  t.grad_w.copy_(at::from_blob(total.data(), t.grad_w.sizes(), at::kDouble));
  return {t.grad_p, t.grad_q, t.grad_w};
}

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, CPU, m) {
  m.impl("attention", attention);
  m.impl("attention_backward", attention_backward);
  m.impl("edge_scores", edge_scores);
  m.impl("edge_scores_backward", edge_scores_backward);
}

}  // namespace dgl_ptdnet
