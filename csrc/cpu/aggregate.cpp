// aggregate and maximum on a CPU: which kernels, over which threads.
#include <ATen/Parallel.h>
#include <torch/library.h>

#include "../aggregate_args.h"
#include "aggregate_kernels.h"
#include "level.h"
#include "parts.h"
#include "tasks.h"

namespace dgl_ptdnet {
namespace {

const AggregateKernels& kernels(Dtype dtype) {
#if defined(__x86_64__)
  const Level level = cpu_level();
  if (dtype != Dtype::f64 && level == Level::avx512) return avx512::aggregate(dtype);
  if (dtype != Dtype::f64 && level == Level::avx2) return avx2::aggregate(dtype);
#endif
  return portable::aggregate(dtype);
}

// The pass over tasks, then the rows that they share.
template <class Args, class Pass, class Join, class... Pieces>
void run(const Args& a, int64_t tasks, Pass pass, Join join, Pieces... pieces) {
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { pass(a, pieces..., begin, end); });
  at::parallel_for(0, tasks, 64, [&](int64_t begin, int64_t end) { join(a, pieces..., begin, end); });
}

Tensor empty_pieces(const AggregateKernels& k, int64_t tasks, int64_t heads, int64_t feats, const Tensor& h) {
  return empty({tasks, 2, k.piece_size(heads, feats)}, h.options().dtype(acc_type(h)));
}

Tensor aggregate(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge, const Tensor& out_ptr,
                 const Tensor& out_dst, const Tensor& out_edge, const Tensor& h, const OptionalTensor& z) {
  AggregateTensors t{h, z, {}};
  const AggregateForward a = t.args({in_ptr, in_src, in_edge}, out_ptr);
  const int64_t tasks = count_row_tasks(a.in.edges);
  if (tasks == 0) return t.out.zero_();
  const AggregateKernels& k = kernels(a.dtype);
  const int64_t element = t.h.element_size(), number = at::elementSize(acc_type(t.h));
  for_parts(t.h, a.in.edges, a.heads, a.feats, false, [&](const Part& part, const Tensor& rows) {
    Tile<AggregateForward> tile = part.of(a, a.heads);
    tile.h = rows.const_data_ptr(), tile.h_stride = rows.stride(0);
    move(tile.z, part.head * number), move(tile.out, (part.head * a.feats + part.column) * element);
    const Tensor pieces = empty_pieces(k, tasks, part.heads, part.feats, t.h);
    run(tile, tasks, k.forward, k.join_forward, pieces.mutable_data_ptr());
  });
  return t.out;
}

std::tuple<Tensor, Tensor> backward(AggregateBackwardTensors t, const SideTensors& out, bool need_h, bool need_z) {
  const AggregateBackward a = t.args(out, need_h, need_z);
  const int64_t tasks = count_row_tasks(a.out.edges);
  if (tasks == 0) return {t.grad_h.zero_(), t.grad_z};
  const AggregateKernels& k = kernels(a.dtype);
  const Tensor pieces = empty_pieces(k, tasks, a.heads, a.feats, t.h);
  run(a, tasks, k.backward, k.join_backward, pieces.mutable_data_ptr());
  return {t.grad_h, t.grad_z};
}

std::tuple<Tensor, Tensor> aggregate_backward(const Tensor& grad, const Tensor& out_ptr, const Tensor& out_dst,
                                              const Tensor& out_edge, const Tensor& h, const OptionalTensor& z,
                                              bool need_h, bool need_z) {
  return backward({grad, h, z, {}, {}, {}}, {out_ptr, out_dst, out_edge}, need_h, need_z);
}

std::tuple<Tensor, Tensor> maximum(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge,
                                   const Tensor& out_ptr, const Tensor& out_dst, const Tensor& out_edge,
                                   const Tensor& h, const OptionalTensor& z) {
  MaximumTensors t{h, z, {}, {}};
  const MaximumForward a = t.args({in_ptr, in_src, in_edge}, out_ptr);
  const int64_t tasks = count_row_tasks(a.in.edges);
  if (tasks == 0) return {t.out.zero_(), t.arg.fill_(-1)};
  const AggregateKernels& k = kernels(a.dtype);
  const Tensor pieces = empty_pieces(k, tasks, 1, a.feats, t.h);
  const Tensor args = empty(pieces.sizes(), t.arg.options());
  run(a, tasks, k.maximum, k.join_maximum, pieces.mutable_data_ptr(), args.mutable_data_ptr<int32_t>());
  return {t.out, t.arg};
}

std::tuple<Tensor, Tensor> maximum_backward(const Tensor& grad, const Tensor& out_ptr, const Tensor& out_dst,
                                            const Tensor& out_edge, const Tensor& h, const OptionalTensor& z,
                                            const Tensor& arg, bool need_h, bool need_z) {
  return backward({grad, h, z, arg, {}, {}}, {out_ptr, out_dst, out_edge}, need_h, need_z);
}

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, CPU, m) {
  m.impl("aggregate", aggregate);
  m.impl("aggregate_backward", aggregate_backward);
  m.impl("maximum", maximum);
  m.impl("maximum_backward", maximum_backward);
}

}  // namespace dgl_ptdnet
