// The operators, as torch knows them. Fakes, gradients and autocast rules are in dgl_ptdnet/ops.py.
#include <torch/library.h>

TORCH_LIBRARY(dgl_ptdnet, m) {
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
}
