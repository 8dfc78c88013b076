// The operators, as torch knows them. Their fakes are in dgl_ptdnet/ops/.
#include <torch/library.h>

TORCH_LIBRARY(dgl_ptdnet, m) {
  // x weight^T + bias for every weight. Rows of a result may have a stride.
  m.def("linear(Tensor x, Tensor[] weights, Tensor?[] biases) -> Tensor[]");
  m.def(
      "linear_backward(Tensor[] grads, Tensor x, Tensor[] weights, bool need_x, bool need_weights) -> "
      "(Tensor grad_x, Tensor[] grad_weights)");

  // The edges by destination (in_*) and by source (out_*). Checks the node ids. The other operators take these tensors,
  // in this order, as `index`.
  m.def(
      "edge_index(Tensor src, Tensor dst, SymInt num_src, SymInt num_dst) -> (Tensor in_ptr, Tensor in_src, "
      "Tensor in_dst, Tensor in_edge, Tensor out_ptr, Tensor out_pos, Tensor out_dst, Tensor out_edge)");

  // A number in (0, 1) for each id, from noise = (seed, offset).
  m.def("uniform(Tensor noise, Tensor edge_ids) -> Tensor");

  // `save`: whether to return the mask and logits that the backward needs. Tensors that were not asked for are empty.
  m.def(
      "edge_gate(Tensor[] index, Tensor p, Tensor q, Tensor w, Tensor c, Tensor? edge_bias, Tensor? noise, "
      "Tensor? edge_ids, *, float negative_slope, float tau, float gamma, float zeta, bool penalty, bool save) -> "
      "(Tensor z, Tensor penalty, Tensor mask, Tensor logit)");
  m.def(
      "edge_gate_backward(Tensor? grad_z, Tensor? grad_penalty, Tensor[] index, Tensor p, Tensor q, Tensor w, "
      "Tensor z, Tensor mask, Tensor logit, *, float negative_slope, float tau, float gamma, float zeta, bool noisy, "
      "bool bias) -> (Tensor grad_p, Tensor grad_q, Tensor grad_w, Tensor grad_c, Tensor grad_bias)");

  // h is [N, F] or [N, heads, F]; z is [E] or [E, heads], without it every gate is 1. to_src: sums destinations' rows
  // into sources.
  m.def("aggregate(Tensor[] index, Tensor h, Tensor? z, bool to_src=False) -> Tensor");
  m.def(
      "aggregate_backward(Tensor grad, Tensor[] index, Tensor h, Tensor? z, bool need_h, bool need_z, "
      "bool to_src=False) -> (Tensor grad_h, Tensor grad_z)");

  // a_u . b_v for every edge.
  m.def("edge_dot(Tensor[] index, Tensor a, Tensor b) -> Tensor");

  // arg: the edge that each maximum came from, -1 if no edge is kept.
  m.def("maximum(Tensor[] index, Tensor h, Tensor? z) -> (Tensor out, Tensor arg)");
  m.def(
      "maximum_backward(Tensor grad, Tensor[] index, Tensor h, Tensor? z, Tensor arg, bool need_h, bool need_z) -> "
      "(Tensor grad_h, Tensor grad_z)");

  // For pairs (u, v) of destinations; the sources of each destination's edges must ascend. On the CPU only.
  m.def("common_neighbours(Tensor[] index, Tensor weight, Tensor u, Tensor v) -> Tensor");

  // Sums x [E] or [E, heads] by destination or source. The transpose gives x [N] or [N, heads] to edges.
  m.def("segment_sum(Tensor[] index, Tensor x, bool by_src) -> Tensor");
  m.def("segment_spread(Tensor[] index, Tensor x, bool by_src) -> Tensor");

  // w_e = z_e max(out_deg_u, floor)^-left max(in_deg_v, floor)^-right, and the degrees, empty if their exponent is 0.
  m.def(
      "normalize(Tensor[] index, Tensor z, *, float left, float right, float floor) -> "
      "(Tensor w, Tensor out_deg, Tensor in_deg)");
  m.def(
      "normalize_backward(Tensor grad, Tensor[] index, Tensor w, Tensor out_deg, Tensor in_deg, *, float left, "
      "float right, float floor) -> Tensor");

  // Scores are leaky_relu(el_u + er_v), or given. max and sum are those of the softmax; `weights`: whether to return
  // the attention weights.
  m.def(
      "attention(Tensor[] index, Tensor h, Tensor? el, Tensor? er, Tensor? scores, Tensor? z, *, "
      "float negative_slope, bool weights) -> (Tensor out, Tensor max, Tensor sum, Tensor weights)");
  m.def(
      "attention_backward(Tensor? grad, Tensor? grad_weights, Tensor[] index, Tensor h, Tensor? el, Tensor? er, "
      "Tensor? scores, Tensor? z, Tensor out, Tensor max, Tensor sum, Tensor weights, *, float negative_slope, "
      "bool need_z) -> (Tensor grad_h, Tensor grad_el, Tensor grad_er, Tensor grad_scores, Tensor grad_z)");

  // GATv2's scores: the sum over k of w_k leaky_relu(p_uk + q_vk), for each head.
  m.def("edge_scores(Tensor[] index, Tensor p, Tensor q, Tensor w, *, float negative_slope) -> Tensor");
  m.def(
      "edge_scores_backward(Tensor grad, Tensor[] index, Tensor p, Tensor q, Tensor w, *, float negative_slope) -> "
      "(Tensor grad_p, Tensor grad_q, Tensor grad_w)");
}
