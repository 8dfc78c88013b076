// Degrees and the normalisation of gates by them, on tensors, for both devices.
#pragma once

#include <tuple>

#include "core/index.h"
#include "degrees.h"

namespace dgl_ptdnet {

inline int64_t heads_of(const Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() == 1 || (x.dim() == 2 && x.size(1) >= 1),
                    "z must be [E] or [E, heads] with heads >= 1; got shape ", x.sizes());
  return x.dim() == 2 ? x.size(1) : 1;
}

// Sums x [E] or [E, heads] by destination or by source.
template <class Device>
Tensor sum_by_row(const EdgeSide& side, const ArgumentChecks& check, const Tensor& x) {
  SegmentSum a{side, check.acc_dtype(), heads_of(x), nullptr, nullptr};
  const Tensor numbers = check.numbers("z", x, side.edges, "edges", a.heads);
  const Tensor out = empty(with_rows(x, side.rows), x.options());
  if (side.edges == 0) return out.zero_();
  a.x = numbers.const_data_ptr(), a.out = out_data(out);
  Device::run(a, numbers);
  return out;
}

template <class Device>
Tensor segment_sum(at::TensorList index, const Tensor& x, bool by_src) {
  const ArgumentChecks check("z", x);
  const EdgeIndexView view = read_index(index, check);
  return sum_by_row<Device>(by_src ? view.by_src() : view.by_dst(), check, x);
}

// Gives the rows' numbers x, [rows] or [rows, heads], to their edges.
template <class Device>
Tensor segment_spread(at::TensorList index, const Tensor& x, bool by_src) {
  const ArgumentChecks check("x", x);
  const EdgeIndexView view = read_index(index, check);
  SegmentSpread a{by_src ? view.by_src() : view.by_dst(), check.acc_dtype(), heads_of(x), nullptr, nullptr};
  const Tensor numbers = check.numbers("x", x, a.side.rows, by_src ? "sources" : "destinations", a.heads);
  const Tensor out = empty(with_rows(x, view.edges), x.options());
  a.x = numbers.const_data_ptr(), a.out = out_data(out);
  if (view.edges > 0) Device::run(a, numbers);
  return out;
}

// The arguments that forward and backward share; `z` is contiguous.
inline Normalize normalize_args(const EdgeIndexView& view, const ArgumentChecks& check, const Tensor& z,
                                const NormalizeOptions& options, const Tensor& out_deg, const Tensor& in_deg) {
  Normalize a{};
  a.in = view.by_dst();
  a.acc = check.acc_dtype();
  a.heads = heads_of(z);
  a.options = options;
  a.z = z.const_data_ptr();
  if (options.left != 0) a.out_deg = out_deg.const_data_ptr();
  if (options.right != 0) a.in_deg = in_deg.const_data_ptr();
  return a;
}

template <class Device>
std::tuple<Tensor, Tensor, Tensor> normalize(at::TensorList index, const Tensor& z, double left, double right,
                                             double floor) {
  const ArgumentChecks check("z", z);
  const EdgeIndexView view = read_index(index, check);
  TORCH_CHECK_VALUE(floor >= 0 && std::isfinite(floor), "floor must be finite and not negative; got ", floor);
  check_finite("left", left), check_finite("right", right);
  check.acc_dtype();
  const Tensor numbers = check.numbers("z", z, view.edges, "edges", heads_of(z));
  const auto degrees = [&](const EdgeSide& side, double power) {
    return power != 0 ? sum_by_row<Device>(side, check, numbers) : empty({0}, z.options());
  };
  const Tensor out_deg = degrees(view.by_src(), left), in_deg = degrees(view.by_dst(), right);
  Normalize a = normalize_args(view, check, numbers, {left, right, floor}, out_deg, in_deg);
  const Tensor w = empty(z.sizes(), z.options());
  a.w = out_data(w);
  if (view.edges > 0) Device::run(a, numbers);
  return {w, out_deg, in_deg};
}

template <class Device>
Tensor normalize_backward(const Tensor& grad, at::TensorList index, const Tensor& w, const Tensor& out_deg,
                          const Tensor& in_deg, double left, double right, double floor) {
  const ArgumentChecks check("grad", grad);
  const EdgeIndexView view = read_index(index, check);
  const int64_t heads = heads_of(grad);
  check.acc_dtype();
  const Tensor numbers = check.numbers("grad", grad, view.edges, "edges", heads);
  const Tensor product = numbers.mul(check.numbers("w", w, view.edges, "edges", heads));
  Tensor out_degrees, in_degrees, out_sum, in_sum;
  if (left != 0) {
    out_degrees = check.numbers("out_deg", out_deg, view.num_src, "sources", heads);
    out_sum = sum_by_row<Device>(view.by_src(), check, product);
  }
  if (right != 0) {
    in_degrees = check.numbers("in_deg", in_deg, view.num_dst, "destinations", heads);
    in_sum = sum_by_row<Device>(view.by_dst(), check, product);
  }
  auto a =
      extend<NormalizeBackward>(normalize_args(view, check, product, {left, right, floor}, out_degrees, in_degrees));
  const Tensor grad_z = empty(grad.sizes(), grad.options());
  a.grad = numbers.const_data_ptr(), a.grad_z = out_data(grad_z);
  a.out_sum = left != 0 ? out_sum.const_data_ptr() : nullptr;
  a.in_sum = right != 0 ? in_sum.const_data_ptr() : nullptr;
  if (view.edges > 0) Device::run(a, numbers);
  return grad_z;
}

}  // namespace dgl_ptdnet
