// Sums and maxima over edges on tensors, for both devices: checks the arguments, makes the results and calls the
// device's kernels.
#pragma once

#include <tuple>

#include "aggregate.h"
#include "core/index.h"

namespace dgl_ptdnet {

// The number of heads: a row of h has as many equal parts, each with a gate of its own.
inline int64_t count_heads(const OptionalTensor& z, const Tensor& h) {
  if (!z || z->dim() == 1) return 1;
  TORCH_CHECK_VALUE(z->dim() == 2 && h.dim() == 3 && z->size(1) == h.size(1),
                    "z must be [E], or [E, heads] where h is [N, heads, F]; got shape ", z->sizes(), " for h of shape ",
                    h.sizes());
  return h.size(1);
}

inline const char* kind_of_rows(bool of_dst) { return of_dst ? "destinations" : "sources"; }

// Sums sources' rows into destinations or, with to_src, destinations' rows into sources.
template <class Device>
Tensor aggregate(at::TensorList index, const Tensor& h, const OptionalTensor& z, bool to_src) {
  const ArgumentChecks check("h", h);
  const EdgeIndexView view = read_index(index, check);
  AggregateForward a{};
  a.dtype = check.dtype();
  a.side = to_src ? view.by_src() : view.by_dst();
  const Tensor rows = check.rows("h", h, a.side.others, kind_of_rows(to_src));
  a.heads = count_heads(z, h);
  a.feats = rows.size(1) / a.heads;
  OptionalTensor gates;
  if (z) gates = check.numbers("z", *z, view.edges, "edges", a.heads);
  const Tensor out = empty(with_rows(h, a.side.rows), h.options());
  if (view.edges == 0) return out.zero_();
  a.h = rows.const_data_ptr(), a.h_stride = rows.stride(0);
  a.z = data(gates);
  a.out = out_data(out);
  Device::run(a, rows);
  return out;
}

// The gradients of aggregate or, with arg, of maximum.
template <class Device>
std::tuple<Tensor, Tensor> sum_backward(const Tensor& grad, at::TensorList index, const Tensor& h,
                                        const OptionalTensor& z, const OptionalTensor& arg, bool need_h, bool need_z,
                                        bool to_src) {
  const ArgumentChecks check("h", h);
  const EdgeIndexView view = read_index(index, check);
  AggregateBackward a{};
  a.dtype = check.dtype();
  a.side = to_src ? view.by_dst() : view.by_src();
  const Tensor rows = check.rows("h", h, a.side.rows, kind_of_rows(to_src));
  const Tensor grads = check.rows("grad", grad, a.side.others, kind_of_rows(!to_src));
  TORCH_CHECK_VALUE(grads.size(1) == rows.size(1), "grad must have ", rows.size(1), " numbers a row; got ",
                    grads.size(1));
  TORCH_CHECK_VALUE(z || !need_z, "need_z is true, but z was not given");
  a.heads = count_heads(z, h);
  a.feats = rows.size(1) / a.heads;
  OptionalTensor gates;
  if (z) gates = check.numbers("z", *z, view.edges, "edges", a.heads);
  if (arg) {
    TORCH_CHECK_VALUE(a.heads == 1 && arg->scalar_type() == at::kInt && arg->is_contiguous() &&
                          arg->device() == h.device() && arg->numel() == grads.numel(),
                      "arg must be the second tensor that maximum returned");
    a.arg = arg->const_data_ptr<int32_t>();
  }
  const Tensor grad_h = empty(need_h ? h.sizes() : at::IntArrayRef{0}, h.options());
  const Tensor grad_z = empty(need_z ? z->sizes() : at::IntArrayRef{0}, check.acc_options());
  if (view.edges == 0) return {grad_h.zero_(), grad_z};
  a.h = rows.const_data_ptr(), a.h_stride = rows.stride(0);
  a.grad = grads.const_data_ptr(), a.grad_stride = grads.stride(0);
  a.z = data(gates);
  a.grad_h = out_data(grad_h), a.grad_z = out_data(grad_z);
  Device::run(a, rows);
  return {grad_h, grad_z};
}

template <class Device>
std::tuple<Tensor, Tensor> aggregate_backward(const Tensor& grad, at::TensorList index, const Tensor& h,
                                              const OptionalTensor& z, bool need_h, bool need_z, bool to_src) {
  return sum_backward<Device>(grad, index, h, z, {}, need_h, need_z, to_src);
}

// a_u . b_v for every edge, by the kernel of the gates' gradient, which is such a product.
template <class Device>
Tensor edge_dot(at::TensorList index, const Tensor& a, const Tensor& b) {
  const ArgumentChecks check("a", a);
  const EdgeIndexView view = read_index(index, check);
  TORCH_CHECK_VALUE(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1),
                    "a must be [N_src, F] and b [N_dst, F]; got shapes ", a.sizes(), " and ", b.sizes());
  AggregateBackward args{};
  args.dtype = check.dtype();
  args.side = view.by_src();
  const Tensor rows = check.rows("a", a, view.num_src, "sources");
  const Tensor others = check.rows("b", b, view.num_dst, "destinations");
  const Tensor out = empty({view.edges}, check.acc_options());
  if (view.edges == 0) return out;
  args.heads = 1, args.feats = rows.size(1);
  args.h = rows.const_data_ptr(), args.h_stride = rows.stride(0);
  args.grad = others.const_data_ptr(), args.grad_stride = others.stride(0);
  args.grad_z = out_data(out);
  Device::run(args, rows);
  return out;
}

template <class Device>
std::tuple<Tensor, Tensor> maximum(at::TensorList index, const Tensor& h, const OptionalTensor& z) {
  const ArgumentChecks check("h", h);
  const EdgeIndexView view = read_index(index, check);
  MaximumForward a{};
  a.dtype = check.dtype();
  a.side = view.by_dst();
  const Tensor rows = check.rows("h", h, view.num_src, "sources");
  TORCH_CHECK_VALUE(!z || z->dim() == 1, "z must be [E]: maximum has no heads; got shape ", z->sizes());
  OptionalTensor gates;
  if (z) gates = check.numbers("z", *z, view.edges, "edges", 1);
  const Tensor out = empty(with_rows(h, view.num_dst), h.options());
  const Tensor arg = empty(out.sizes(), out.options().dtype(at::kInt));
  if (view.edges == 0) return {out.zero_(), arg.fill_(-1)};
  a.feats = rows.size(1);
  a.h = rows.const_data_ptr(), a.h_stride = rows.stride(0);
  a.z = data(gates);
  a.out = out_data(out), a.arg = static_cast<int32_t*>(out_data(arg));
  Device::run(a, rows);
  return {out, arg};
}

template <class Device>
std::tuple<Tensor, Tensor> maximum_backward(const Tensor& grad, at::TensorList index, const Tensor& h,
                                            const OptionalTensor& z, const Tensor& arg, bool need_h, bool need_z) {
  return sum_backward<Device>(grad, index, h, z, arg, need_h, need_z, false);
}

}  // namespace dgl_ptdnet
