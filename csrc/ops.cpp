// The operators, as torch knows them. Fakes, gradients and autocast rules are in dgl_ptdnet/ops/.
#include <torch/library.h>

TORCH_LIBRARY(dgl_ptdnet, m) {
  // x weight^T + bias for every weight; rows of a result may have a stride.
  m.def("linear(Tensor x, Tensor[] weights, Tensor?[] biases) -> Tensor[]");
  m.def(
      "linear_backward(Tensor[] grads, Tensor x, Tensor[] weights, bool need_x, bool need_weights) -> "
      "(Tensor grad_x, Tensor[] grad_weights)");

  // Edges by destination (in_*) and, as positions of those, by source (out_*); ids are checked here.
  m.def(
      "edge_index(Tensor src, Tensor dst, SymInt num_src, SymInt num_dst) -> "
      "(Tensor in_ptr, Tensor in_src, Tensor in_dst, Tensor in_edge, Tensor out_ptr, Tensor out_pos)");

  // `save`: keep what the backward needs. penalty, mask and logit are empty where nobody asked for them.
  m.def(
      "edge_gate(Tensor in_ptr, Tensor in_src, Tensor in_dst, Tensor in_edge, Tensor out_ptr, Tensor out_pos, "
      "Tensor p, Tensor q, Tensor w, Tensor c, Tensor? edge_bias, Tensor? noise, Tensor? edge_ids, "
      "float negative_slope, float tau, float gamma, float zeta, bool penalty, bool save) -> "
      "(Tensor z, Tensor penalty, Tensor mask, Tensor logit)");

  m.def(
      "edge_gate_backward(Tensor? grad_z, Tensor? grad_penalty, "
      "Tensor in_ptr, Tensor in_src, Tensor in_dst, Tensor in_edge, Tensor out_ptr, Tensor out_pos, "
      "Tensor p, Tensor q, Tensor w, Tensor z, Tensor mask, Tensor logit, "
      "float negative_slope, float tau, float gamma, float zeta, bool noisy, bool bias) -> "
      "(Tensor grad_p, Tensor grad_q, Tensor grad_w, Tensor grad_c, Tensor grad_bias)");

  // The index as EdgeIndex.sides has it: for destinations, then for sources, where each one's edges start, their other
  // ends and their numbers. Rows of h are heads x F numbers; z [E] or [E, heads], none for ones.
  m.def(
      "aggregate(Tensor in_ptr, Tensor in_src, Tensor in_edge, Tensor out_ptr, Tensor out_dst, Tensor out_edge, "
      "Tensor h, Tensor? z) -> Tensor");
  m.def(
      "aggregate_backward(Tensor grad, Tensor out_ptr, Tensor out_dst, Tensor out_edge, Tensor h, Tensor? z, "
      "bool need_h, bool need_z) -> (Tensor grad_h, Tensor grad_z)");

  // a_u . b_v for every edge.
  m.def(
      "edge_dot(Tensor in_ptr, Tensor in_src, Tensor in_edge, Tensor out_ptr, Tensor out_dst, Tensor out_edge, "
      "Tensor a, Tensor b) -> Tensor");

  // arg: the edge that each maximum came over, -1 for none.
  m.def(
      "maximum(Tensor in_ptr, Tensor in_src, Tensor in_edge, Tensor out_ptr, Tensor out_dst, Tensor out_edge, "
      "Tensor h, Tensor? z) -> (Tensor out, Tensor arg)");
  m.def(
      "maximum_backward(Tensor grad, Tensor out_ptr, Tensor out_dst, Tensor out_edge, Tensor h, Tensor? z, Tensor arg, "
      "bool need_h, bool need_z) -> (Tensor grad_h, Tensor grad_z)");

  // The index's destinations: where their edges start, the sources in ascending order, the edges' numbers. CPU alone.
  m.def("common_neighbours(Tensor ptr, Tensor node, Tensor edge, Tensor weight, Tensor u, Tensor v) -> Tensor");

  // x [E] or [E, heads] summed by row of one side, and its transpose: x [rows] or [rows, heads] given to edges.
  m.def("segment_sum(Tensor ptr, Tensor edge, Tensor x) -> Tensor");
  m.def("segment_spread(Tensor ptr, Tensor edge, Tensor x) -> Tensor");

  // w_e = z_e max(out_deg_u, floor)^-left max(in_deg_v, floor)^-right, with the degrees, empty where not needed.
  m.def(
      "normalize(Tensor in_ptr, Tensor in_src, Tensor in_edge, Tensor out_ptr, Tensor out_dst, Tensor out_edge, "
      "Tensor z, float left, float right, float floor) -> (Tensor w, Tensor out_deg, Tensor in_deg)");
  m.def(
      "normalize_backward(Tensor grad, Tensor in_ptr, Tensor in_src, Tensor in_edge, Tensor out_ptr, Tensor out_dst, "
      "Tensor out_edge, Tensor w, Tensor out_deg, Tensor in_deg, float left, float right, float floor) -> Tensor");

  // Scores are leaky_relu(el_u + er_v), or given. max and sum are the softmax's; weights are empty unless wanted.
  m.def(
      "attention(Tensor in_ptr, Tensor in_src, Tensor in_edge, Tensor out_ptr, Tensor out_dst, Tensor out_edge, "
      "Tensor h, Tensor? el, Tensor? er, Tensor? scores, Tensor? z, float negative_slope, int heads, bool weights) -> "
      "(Tensor out, Tensor max, Tensor sum, Tensor weights)");
  m.def(
      "attention_backward(Tensor? grad, Tensor? grad_weights, Tensor in_ptr, Tensor in_src, Tensor in_edge, "
      "Tensor out_ptr, Tensor out_dst, Tensor out_edge, Tensor h, Tensor? el, Tensor? er, Tensor? scores, Tensor? z, "
      "Tensor out, Tensor max, Tensor sum, Tensor weights, float negative_slope, int heads, bool need_z) -> "
      "(Tensor grad_h, Tensor grad_el, Tensor grad_er, Tensor grad_scores, Tensor grad_z)");

  // GATv2's scores: the sum of w_k leaky_relu(p_uk + q_vk) for each head.
  m.def(
      "edge_scores(Tensor in_ptr, Tensor in_src, Tensor in_edge, Tensor out_ptr, Tensor out_dst, Tensor out_edge, "
      "Tensor p, Tensor q, Tensor w, float negative_slope) -> Tensor");
  m.def(
      "edge_scores_backward(Tensor grad, Tensor in_ptr, Tensor in_src, Tensor in_edge, Tensor out_ptr, Tensor out_dst, "
      "Tensor out_edge, Tensor p, Tensor q, Tensor w, float negative_slope) -> "
      "(Tensor grad_p, Tensor grad_q, Tensor grad_w)");
}
