// The edge gate's operators on tensors, for both devices: checks the arguments, makes the results and calls the
// device's kernels.
#pragma once

#include <ATen/ops/ones.h>

#include <tuple>

#include "core/index.h"
#include "edge_gate.h"

namespace dgl_ptdnet {

// The checked arguments that forward and backward share. The pointers of `inputs` point into the tensors.
struct GateTensors {
  Tensor p, q, w;
  EdgeGateInputs inputs{};

  GateTensors(const ArgumentChecks& check, at::TensorList index, const Tensor& p_, const Tensor& q_, const Tensor& w_,
              const GateOptions& options, bool noisy) {
    for (const auto& [name, rows] : {std::pair<const char*, const Tensor&>{"p", p_}, {"q", q_}})
      TORCH_CHECK_VALUE(rows.dim() == 2 && rows.size(1) >= 1, name, " must be [N, H] with H >= 1; got shape ",
                        rows.sizes());
    TORCH_CHECK_VALUE(p_.size(1) == q_.size(1), "p [N_src, H] and q [N_dst, H] must agree in H; got shapes ",
                      p_.sizes(), " and ", q_.sizes());
    TORCH_CHECK_VALUE(w_.dim() == 1 && w_.size(0) == p_.size(1), "w must be [H] with H = ", p_.size(1), "; got shape ",
                      w_.sizes());
    TORCH_CHECK_VALUE(options.tau > 0, "tau must be positive; got ", options.tau);
    TORCH_CHECK_VALUE(options.gamma < 0 && options.zeta > 1,
                      "gamma < 0 and zeta > 1 must hold, else no gate is ever exactly 0 or 1; got gamma = ",
                      options.gamma, " and zeta = ", options.zeta);
    check_finite("tau", options.tau), check_finite("gamma", options.gamma), check_finite("zeta", options.zeta);
    check_negative_slope(options.negative_slope);
    inputs.index = read_index(index, check);
    inputs.dtype = check.dtype();
    p = check.rows("p", p_, inputs.index.num_src, "sources");
    q = check.rows("q", q_, inputs.index.num_dst, "destinations");
    w = check.as_acc("w", w_);
    inputs.p = p.const_data_ptr(), inputs.p_stride = p.stride(0);
    inputs.q = q.const_data_ptr(), inputs.q_stride = q.stride(0);
    inputs.hidden = p.size(1);
    inputs.w = w.const_data_ptr();
    inputs.options = options;
    inputs.noisy = noisy;
  }
};

// Without an activation the logit is separable: it is a sum of one number of each node, so a gate with H = 1 makes it.
inline bool is_separable(const Tensor& p, const Tensor& q, const Tensor& w, double negative_slope) {
  const auto known = [&](at::ScalarType dtype) { return dtype == acc_type(p) || dtype == p.scalar_type(); };
  return negative_slope == 1 && p.dim() == 2 && q.dim() == 2 && w.dim() == 1 && p.sym_size(1) > 1 &&
         p.sym_size(1) == q.sym_size(1) && p.sym_size(1) == w.sym_size(0) && p.scalar_type() == q.scalar_type() &&
         p.is_floating_point() && known(w.scalar_type());
}

struct SeparatedGate {
  Tensor p, q, w, c;
  OptionalTensor edge_bias;

  SeparatedGate(const Tensor& p_, const Tensor& q_, const Tensor& w_, const Tensor& c_, const OptionalTensor& bias) {
    const at::ScalarType acc = acc_type(p_);
    const auto wide = [&](const Tensor& t) { return t.scalar_type() == p_.scalar_type() ? t.to(acc) : t; };
    const Tensor column = w_.to(acc).unsqueeze(1);
    p = p_.to(acc).matmul(column), q = q_.to(acc).matmul(column);
    w = at::ones({1}, p.options());
    c = wide(c_);
    if (bias) edge_bias = wide(*bias);
  }
};

// `save`: whether to return the mask and logits that the backward needs.
template <class Device>
std::tuple<Tensor, Tensor, Tensor, Tensor> edge_gate(at::TensorList index, const Tensor& p, const Tensor& q,
                                                     const Tensor& w, const Tensor& c, const OptionalTensor& edge_bias,
                                                     const OptionalTensor& noise, const OptionalTensor& edge_ids,
                                                     double negative_slope, double tau, double gamma, double zeta,
                                                     bool penalty, bool save) {
  if (is_separable(p, q, w, negative_slope)) {
    const SeparatedGate s(p, q, w, c, edge_bias);
    return edge_gate<Device>(index, s.p, s.q, s.w, s.c, s.edge_bias, noise, edge_ids, negative_slope, tau, gamma, zeta,
                             penalty, save);
  }
  const ArgumentChecks check("p", p);
  const GateTensors t(check, index, p, q, w, {negative_slope, tau, gamma, zeta}, noise.has_value());
  const int64_t edges = t.inputs.index.edges;
  TORCH_CHECK_VALUE(c.numel() == 1, "c must be one number; got shape ", c.sizes());
  const Tensor offset = check.as_acc("c", c);
  OptionalTensor bias, seed, ids;
  if (edge_bias) bias = check.numbers("edge_bias", *edge_bias, edges, "edges", 1);
  if (noise) seed = check.int64("noise", *noise, 2, "int64[2], (seed, offset),");
  if (edge_ids) ids = check.int64("edge_ids", *edge_ids, edges, "[E]");
  const auto acc = check.acc_options();
  const Tensor z = empty({edges}, acc), expected_open = penalty ? empty({}, acc) : empty({0}, acc);
  const Tensor mask = empty({save ? edges : 0, mask_bytes(t.inputs.hidden)}, p.options().dtype(at::kByte));
  const Tensor logit = empty({save && penalty ? edges : 0}, acc);
  auto a = extend<EdgeGateForward>(t.inputs);
  a.c = offset.const_data_ptr();
  a.edge_bias = data(bias);
  a.noise = seed ? seed->const_data_ptr<int64_t>() : nullptr;
  a.edge_ids = ids ? ids->const_data_ptr<int64_t>() : nullptr;
  a.z = out_data(z);
  a.penalty = out_data(expected_open);
  a.mask = static_cast<uint8_t*>(out_data(mask));
  a.logit = out_data(logit);
  Device::run(a, t.p);
  return {z, expected_open, mask, logit};
}

// `bias`: whether to make edge_bias' gradient.
template <class Device>
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> edge_gate_backward(
    const OptionalTensor& grad_z, const OptionalTensor& grad_penalty, at::TensorList index, const Tensor& p,
    const Tensor& q, const Tensor& w, const Tensor& z, const Tensor& mask, const Tensor& logit, double negative_slope,
    double tau, double gamma, double zeta, bool noisy, bool bias) {
  const ArgumentChecks check("p", p);
  const GateTensors t(check, index, p, q, w, {negative_slope, tau, gamma, zeta}, noisy);
  const int64_t edges = t.inputs.index.edges, hidden = t.inputs.hidden;
  TORCH_CHECK_VALUE(mask.scalar_type() == at::kByte && mask.is_contiguous() && mask.device() == p.device() &&
                        mask.numel() == edges * mask_bytes(hidden),
                    "edge_gate was run without gradients, so it saved nothing for the backward. Call it with gradients "
                    "enabled");
  const Tensor gates = check.numbers("z", z, edges, "edges", 1);
  OptionalTensor given, given_penalty, logits;
  if (grad_z) given = check.numbers("grad_z", *grad_z, edges, "edges", 1);
  if (grad_penalty) {
    TORCH_CHECK_VALUE(grad_penalty->numel() == 1, "grad_penalty must be one number");
    given_penalty = check.as_acc("grad_penalty", *grad_penalty);
    logits = check.numbers("logit", logit, edges, "edges", 1);
  }
  const auto acc = check.acc_options();
  const Tensor grad_p = empty(t.p.sizes(), p.options()), grad_q = empty(t.q.sizes(), p.options());
  const Tensor grad_w = empty({hidden}, acc), grad_c = empty({}, acc), grad_bias = empty({bias ? edges : 0}, acc);
  auto a = extend<EdgeGateBackward>(t.inputs);
  a.z = gates.const_data_ptr();
  a.mask = mask.numel() ? mask.const_data_ptr<uint8_t>() : nullptr;
  a.grad_z = data(given);
  a.grad_penalty = data(given_penalty);
  a.logit = data(logits);
  a.grad_p = out_data(grad_p), a.grad_q = out_data(grad_q);
  a.grad_w = out_data(grad_w), a.grad_c = out_data(grad_c), a.grad_bias = out_data(grad_bias);
  Device::run(a, t.p);
  return {grad_p, grad_q, grad_w, grad_c, grad_bias};
}

}  // namespace dgl_ptdnet
