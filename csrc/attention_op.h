// Attention and GATv2's scores on tensors, for both devices.
#pragma once

#include <tuple>

#include "attention.h"
#include "degrees_op.h"

namespace dgl_ptdnet {

// The checked arguments that forward and backward share. The pointers of `inputs` point into the tensors.
struct AttentionTensors {
  Tensor h;
  OptionalTensor el, er, scores, z;
  AttentionInputs inputs{};

  AttentionTensors(const ArgumentChecks& check, at::TensorList index, const Tensor& h_, const OptionalTensor& el_,
                   const OptionalTensor& er_, const OptionalTensor& scores_, const OptionalTensor& z_,
                   double negative_slope) {
    const EdgeIndexView view = read_index(index, check);
    AttentionInputs& a = inputs;
    a.dtype = check.dtype();
    check_negative_slope(negative_slope);
    TORCH_CHECK_VALUE(h_.dim() == 3, "h must be [N_src, heads, F]; got shape ", h_.sizes());
    TORCH_CHECK_VALUE(el_.has_value() == er_.has_value() && el_.has_value() != scores_.has_value(),
                      "pass either el and er, or scores; got", el_ ? " el" : "", er_ ? " er" : "",
                      scores_ ? " scores" : "", el_ || er_ || scores_ ? "" : " none of them");
    a.in = view.by_dst(), a.out = view.by_src();
    a.heads = h_.size(1), a.feats = h_.size(2);
    a.negative_slope = negative_slope;
    h = check.rows("h", h_, view.num_src, "sources");
    const int64_t heads = a.heads;
    if (el_) el = check.numbers("el", *el_, view.num_src, "sources", heads);
    if (er_) er = check.numbers("er", *er_, view.num_dst, "destinations", heads);
    if (scores_) scores = check.numbers("scores", *scores_, view.edges, "edges", heads);
    a.z_heads = z_ && z_->dim() == 2 ? heads : 1;
    if (z_) z = check.numbers("z", *z_, view.edges, "edges", a.z_heads);
    a.h = h.const_data_ptr(), a.h_stride = h.stride(0);
    a.el = data(el), a.er = data(er), a.scores = data(scores), a.z = data(z);
  }
};

// max and sum are those of the softmax; without `weights` the last tensor is empty.
template <class Device>
std::tuple<Tensor, Tensor, Tensor, Tensor> attention(at::TensorList index, const Tensor& h, const OptionalTensor& el,
                                                     const OptionalTensor& er, const OptionalTensor& scores,
                                                     const OptionalTensor& z, double negative_slope, bool weights) {
  const ArgumentChecks check("h", h);
  const AttentionTensors t(check, index, h, el, er, scores, z, negative_slope);
  const int64_t nodes = t.inputs.in.rows, edges = t.inputs.in.edges, heads = t.inputs.heads;
  const auto acc = check.acc_options();
  const Tensor out = empty(with_rows(h, nodes), h.options()), max = empty({nodes, heads}, acc);
  const Tensor sum = empty({nodes, heads}, acc), shares = empty({weights ? edges : 0, heads}, acc);
  if (edges == 0) return {out.zero_(), max.zero_(), sum.zero_(), shares};
  auto a = extend<AttentionForward>(t.inputs);
  a.result = out_data(out), a.max = out_data(max), a.sum = out_data(sum), a.weights = out_data(shares);
  Device::run(a, t.h);
  return {out, max, sum, shares};
}

template <class Device>
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> attention_backward(
    const OptionalTensor& grad, const OptionalTensor& grad_weights, at::TensorList index, const Tensor& h,
    const OptionalTensor& el, const OptionalTensor& er, const OptionalTensor& scores, const OptionalTensor& z,
    const Tensor& out, const Tensor& max, const Tensor& sum, const Tensor& weights, double negative_slope,
    bool need_z) {
  const ArgumentChecks check("h", h);
  const AttentionTensors t(check, index, h, el, er, scores, z, negative_slope);
  const int64_t nodes = t.inputs.in.rows, edges = t.inputs.in.edges, heads = t.inputs.heads;
  TORCH_CHECK_VALUE(z || !need_z, "need_z is true, but z was not given");
  const Tensor rows =
      check.rows("grad", grad ? *grad : empty(out.sizes(), out.options()).zero_(), nodes, "destinations");
  const Tensor result = check.rows("out", out, nodes, "destinations").contiguous();
  TORCH_CHECK_VALUE(rows.size(1) == t.h.size(1) && result.size(1) == t.h.size(1),
                    "grad and out must have as many numbers a row as h");
  const Tensor highest = check.numbers("max", max, nodes, "destinations", heads);
  const Tensor total = check.numbers("sum", sum, nodes, "destinations", heads);
  OptionalTensor given, shift;
  if (grad_weights) {
    TORCH_CHECK_VALUE(weights.sizes() == grad_weights->sizes(),
                      "the forward saved no weights. Call attention with weights=True");
    given = check.numbers("grad_weights", *grad_weights, edges, "edges", heads);
    const Tensor product = weights.mul(*given);
    shift = sum_by_row<Device>(t.inputs.in, ArgumentChecks("weights", product), product);
  }
  const auto acc = check.acc_options();
  const auto none = [&] { return empty({0, heads}, acc); };
  const Tensor grad_h = empty(h.sizes(), h.options());
  const Tensor grad_el = el ? empty({t.inputs.out.rows, heads}, acc) : none();
  const Tensor grad_scores = empty({edges, heads}, acc);
  const Tensor grad_z = empty(need_z ? z->sizes() : at::IntArrayRef{0}, acc);
  if (edges == 0) {
    grad_h.zero_(), grad_el.zero_();
  } else {
    const Tensor records = empty({nodes, 4, heads}, acc);
    auto a = extend<AttentionBackward>(t.inputs);
    a.grad = rows.const_data_ptr(), a.grad_stride = rows.stride(0);
    a.result = result.const_data_ptr(), a.max = highest.const_data_ptr(), a.sum = total.const_data_ptr();
    a.grad_weights = data(given), a.shift = data(shift);
    a.grad_h = out_data(grad_h), a.grad_el = out_data(grad_el), a.grad_scores = out_data(grad_scores);
    a.grad_z = out_data(grad_z), a.records = out_data(records);
    Device::run(a, t.h);
  }
  const Tensor grad_er = er ? sum_by_row<Device>(t.inputs.in, ArgumentChecks("er", grad_scores), grad_scores) : none();
  return {grad_h, grad_el, grad_er, scores ? grad_scores : none(), grad_z};
}

struct EdgeScoresTensors {
  Tensor p, q, w;
  EdgeScoresInputs inputs{};

  EdgeScoresTensors(const ArgumentChecks& check, at::TensorList index, const Tensor& p_, const Tensor& q_,
                    const Tensor& w_, double negative_slope) {
    const EdgeIndexView view = read_index(index, check);
    EdgeScoresInputs& a = inputs;
    a.dtype = check.dtype();
    check_negative_slope(negative_slope);
    TORCH_CHECK_VALUE((p_.dim() == 2 || p_.dim() == 3) && q_.dim() == p_.dim() && w_.dim() == p_.dim() - 1 &&
                          p_.sizes().slice(1) == w_.sizes() && q_.sizes().slice(1) == w_.sizes(),
                      "p must be [N_src, heads, K], q [N_dst, heads, K] and w [heads, K], all with or all without "
                      "heads; got shapes ",
                      p_.sizes(), ", ", q_.sizes(), " and ", w_.sizes());
    a.in = view.by_dst(), a.out = view.by_src();
    a.heads = w_.dim() == 2 ? w_.size(0) : 1, a.feats = w_.size(-1);
    a.negative_slope = negative_slope;
    p = check.rows("p", p_, view.num_src, "sources");
    q = check.rows("q", q_, view.num_dst, "destinations");
    w = check.as_acc("w", w_);
    a.p = p.const_data_ptr(), a.p_stride = p.stride(0);
    a.q = q.const_data_ptr(), a.q_stride = q.stride(0);
    a.w = w.const_data_ptr();
  }
};

// Returns [E, heads], or [E] if p has no heads.
template <class Device>
Tensor edge_scores(at::TensorList index, const Tensor& p, const Tensor& q, const Tensor& w, double negative_slope) {
  const ArgumentChecks check("p", p);
  const EdgeScoresTensors t(check, index, p, q, w, negative_slope);
  const int64_t edges = t.inputs.in.edges;
  const auto acc = check.acc_options();
  const Tensor scores = w.dim() == 2 ? empty({edges, w.size(0)}, acc) : empty({edges}, acc);
  auto a = extend<EdgeScoresForward>(t.inputs);
  a.scores = out_data(scores);
  if (edges > 0) Device::run(a, t.p);
  return scores;
}

template <class Device>
std::tuple<Tensor, Tensor, Tensor> edge_scores_backward(const Tensor& grad, at::TensorList index, const Tensor& p,
                                                        const Tensor& q, const Tensor& w, double negative_slope) {
  const ArgumentChecks check("p", p);
  const EdgeScoresTensors t(check, index, p, q, w, negative_slope);
  const Tensor grads = check.numbers("grad", grad, t.inputs.in.edges, "edges", t.inputs.heads);
  const Tensor grad_p = empty(p.sizes(), p.options()), grad_q = empty(q.sizes(), q.options());
  const Tensor grad_w = empty(w.sizes(), check.acc_options());
  if (t.inputs.in.edges == 0) return {grad_p.zero_(), grad_q.zero_(), grad_w.zero_()};
  auto a = extend<EdgeScoresBackward>(t.inputs);
  a.grad = grads.const_data_ptr();
  a.grad_p = out_data(grad_p), a.grad_q = out_data(grad_q), a.grad_w = out_data(grad_w);
  Device::run(a, t.p);
  return {grad_p, grad_q, grad_w};
}

}  // namespace dgl_ptdnet
