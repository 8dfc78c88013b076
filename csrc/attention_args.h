// From tensors to the attention's plain arguments, for both devices.
#pragma once

#include "aggregate_args.h"
#include "attention.h"

namespace dgl_ptdnet {

inline void check_negative_slope(double negative_slope) {
  TORCH_CHECK_VALUE(std::isfinite(negative_slope) && negative_slope >= 0,
                    "negative_slope must be finite and not negative; got ", negative_slope);
}

struct AttentionTensors {
  Tensor h;
  OptionalTensor el, er, scores, z;
  SideTensors in_side, out_side;

  AttentionInputs inputs(double negative_slope, int64_t heads) {
    const Judge judge{"h", h};
    AttentionInputs a{};
    a.dtype = judge.dtype();
    check_negative_slope(negative_slope);
    TORCH_CHECK_VALUE(h.dim() == 2 && heads >= 1 && h.size(1) >= 1 && h.size(1) % heads == 0,
                      "h must be [N_src, heads * F] with heads, F >= 1; got shape ", h.sizes(), " for ", heads,
                      " heads");
    TORCH_CHECK_VALUE(el.has_value() == er.has_value() && el.has_value() != scores.has_value(),
                      "give el and er, or scores instead of both");
    a.in = in_side.view(h.device(), out_side.ptr.size(0) - 1);
    a.out = out_side.view(h.device(), in_side.ptr.size(0) - 1);
    TORCH_CHECK_VALUE(a.in.edges == a.out.edges, "the index's two sides disagree on the number of edges");
    a.heads = heads, a.feats = h.size(1) / heads;
    a.negative_slope = negative_slope;
    h = judge.row_matrix("h", h, a.out.rows, "sources", h.size(1));
    if (el) el = judge.numbers("el", *el, a.out.rows, "sources", heads);
    if (er) er = judge.numbers("er", *er, a.in.rows, "destinations", heads);
    if (scores) scores = judge.numbers("scores", *scores, a.in.edges, "edges", heads);
    a.z_heads = z && z->dim() == 2 ? heads : 1;
    if (z) z = judge.numbers("z", *z, a.in.edges, "edges", a.z_heads);
    a.h = h.const_data_ptr(), a.h_stride = h.stride(0);
    a.el = el ? el->const_data_ptr() : nullptr;
    a.er = er ? er->const_data_ptr() : nullptr;
    a.scores = scores ? scores->const_data_ptr() : nullptr;
    a.z = z ? z->const_data_ptr() : nullptr;
    return a;
  }
};

struct AttentionForwardTensors : AttentionTensors {
  Tensor out, max, sum, weights;

  AttentionForward args(double negative_slope, int64_t heads, bool with_weights) {
    AttentionForward a{};
    static_cast<AttentionInputs&>(a) = inputs(negative_slope, heads);
    const auto acc = h.options().dtype(acc_type(h));
    out = empty({a.in.rows, h.size(1)}, h.options());
    max = empty({a.in.rows, heads}, acc);
    sum = empty({a.in.rows, heads}, acc);
    weights = empty({with_weights ? a.in.edges : 0, heads}, acc);
    a.result = out.mutable_data_ptr(), a.max = max.mutable_data_ptr(), a.sum = sum.mutable_data_ptr();
    a.weights = pointer(weights);
    return a;
  }
};

struct AttentionBackwardTensors : AttentionTensors {
  Tensor grad;
  OptionalTensor grad_weights;
  Tensor out, max, sum, shift;  // shift: empty without grad_weights
  Tensor grad_h, grad_el, grad_scores, grad_z, records;

  AttentionBackward args(double negative_slope, int64_t heads, bool need_z) {
    AttentionBackward a{};
    static_cast<AttentionInputs&>(a) = inputs(negative_slope, heads);
    const Judge judge{"h", h};
    const auto acc = h.options().dtype(acc_type(h));
    TORCH_CHECK_VALUE(z || !need_z, "without z it has no gradient");
    grad = judge.row_matrix("grad", grad, a.in.rows, "destinations", h.size(1));
    out = judge.row_matrix("out", out, a.in.rows, "destinations", h.size(1)).contiguous();
    max = judge.numbers("max", max, a.in.rows, "destinations", heads);
    sum = judge.numbers("sum", sum, a.in.rows, "destinations", heads);
    if (grad_weights) {
      grad_weights = judge.numbers("grad_weights", *grad_weights, a.in.edges, "edges", heads);
      shift = judge.numbers("shift", shift, a.in.rows, "destinations", heads);
      a.grad_weights = pointer(*grad_weights), a.shift = pointer(shift);
    }
    grad_h = empty({a.out.rows, h.size(1)}, h.options());
    grad_el = empty({el ? a.out.rows : 0, heads}, acc);
    grad_scores = empty({a.in.edges, heads}, acc);
    grad_z = need_z ? empty(z->sizes(), acc) : empty({0}, acc);
    records = empty({a.in.rows, 4, heads}, acc);
    a.grad = grad.const_data_ptr(), a.grad_stride = grad.stride(0);
    a.result = out.const_data_ptr(), a.max = max.const_data_ptr(), a.sum = sum.const_data_ptr();
    a.grad_h = pointer(grad_h), a.grad_el = pointer(grad_el), a.grad_scores = pointer(grad_scores);
    a.grad_z = pointer(grad_z), a.records = pointer(records);
    return a;
  }
};

struct EdgeScoresTensors {
  Tensor p, q, w;
  SideTensors in_side, out_side;

  EdgeScoresInputs inputs(double negative_slope) {
    const Judge judge{"p", p};
    EdgeScoresInputs a{};
    a.dtype = judge.dtype();
    check_negative_slope(negative_slope);
    TORCH_CHECK_VALUE(w.dim() == 2 && w.numel() >= 1, "w must be [heads, F] with heads, F >= 1; got shape ", w.sizes());
    a.in = in_side.view(p.device(), out_side.ptr.size(0) - 1);
    a.out = out_side.view(p.device(), in_side.ptr.size(0) - 1);
    TORCH_CHECK_VALUE(a.in.edges == a.out.edges, "the index's two sides disagree on the number of edges");
    a.heads = w.size(0), a.feats = w.size(1);
    a.negative_slope = negative_slope;
    p = judge.row_matrix("p", p, a.out.rows, "sources", w.numel());
    q = judge.row_matrix("q", q, a.in.rows, "destinations", w.numel());
    w = judge.numbers("w", w, w.size(0), "heads", w.size(1));
    a.p = p.const_data_ptr(), a.p_stride = p.stride(0);
    a.q = q.const_data_ptr(), a.q_stride = q.stride(0);
    a.w = w.const_data_ptr();
    return a;
  }
};

struct EdgeScoresForwardTensors : EdgeScoresTensors {
  Tensor scores;

  EdgeScoresForward args(double negative_slope) {
    EdgeScoresForward a{};
    static_cast<EdgeScoresInputs&>(a) = inputs(negative_slope);
    scores = empty({a.in.edges, a.heads}, w.options());
    a.scores = pointer(scores);
    return a;
  }
};

struct EdgeScoresBackwardTensors : EdgeScoresTensors {
  Tensor grad;
  Tensor grad_p, grad_q, grad_w;

  EdgeScoresBackward args(double negative_slope) {
    EdgeScoresBackward a{};
    static_cast<EdgeScoresInputs&>(a) = inputs(negative_slope);
    grad = Judge{"p", p}.numbers("grad", grad, a.in.edges, "edges", a.heads);
    grad_p = empty({a.out.rows, w.numel()}, p.options());
    grad_q = empty({a.in.rows, w.numel()}, q.options());
    grad_w = empty(w.sizes(), w.options());
    a.grad = pointer(grad);
    a.grad_p = pointer(grad_p), a.grad_q = pointer(grad_q), a.grad_w = pointer(grad_w);
    return a;
  }
};

}  // namespace dgl_ptdnet
