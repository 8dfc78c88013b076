// The operators' derivatives, their casts under autocast, and checks that refuse tensors that no kernel can work on.
#include <ATen/FuncTorchTLS.h>
#include <torch/csrc/autograd/custom_function.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "operators.h"

namespace dgl_ptdnet {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// call_NAME().call(...): the operator, through the dispatcher.
#define PTD_OPERATOR(name)                                                                                      \
  const auto& call_##name() {                                                                                   \
    static const auto handle =                                                                                  \
        c10::Dispatcher::singleton().findSchemaOrThrow("dgl_ptdnet::" #name, "").typed<decltype(name<void>)>(); \
    return handle;                                                                                              \
  }
PTD_OPERATOR(edge_gate)
PTD_OPERATOR(edge_gate_backward)
PTD_OPERATOR(aggregate)
PTD_OPERATOR(aggregate_backward)
PTD_OPERATOR(edge_dot)
PTD_OPERATOR(maximum)
PTD_OPERATOR(maximum_backward)
PTD_OPERATOR(segment_sum)
PTD_OPERATOR(segment_spread)
PTD_OPERATOR(normalize)
PTD_OPERATOR(normalize_backward)
PTD_OPERATOR(attention)
PTD_OPERATOR(attention_backward)
PTD_OPERATOR(edge_scores)
PTD_OPERATOR(edge_scores_backward)
#undef PTD_OPERATOR

// The index as an argument of a Function: autograd does not count it among the inputs.
struct Index {
  at::TensorList tensors;
};

void save_index(AutogradContext* ctx, const Index& index) { ctx->saved_data["index"] = index.tensors.vec(); }
std::vector<Tensor> saved_index(AutogradContext* ctx) { return ctx->saved_data["index"].toTensorVector(); }

OptionalTensor optional(const Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; }
Tensor undefined(const OptionalTensor& t) { return t ? *t : Tensor(); }
Tensor where_needed(AutogradContext* ctx, size_t input, const Tensor& grad) {
  return ctx->needs_input_grad(input) ? grad : Tensor();
}

// An argument and its name; points to the caller's tensor.
struct Argument {
  const char* name;
  const Tensor* tensor;

  Argument(const char* name_, const Tensor& t) : name(name_), tensor(&t) {}
  Argument(const char* name_, const OptionalTensor& t) : name(name_), tensor(t && t->defined() ? &*t : nullptr) {}
};

// Refuses tensors and transforms that no kernel can work on; the operators check the rest. Returns whether a gradient
// is wanted.
bool check_arguments(const char* operator_name, std::initializer_list<Argument> arguments) {
  const auto& transforms = at::functorch::functorchTLSAccessor();
  if (transforms) {
    try {
      transforms->checkSupportsCppAutogradFunction();
    } catch (const c10::Error&) {
      TORCH_CHECK_NOT_IMPLEMENTED(false, operator_name,
                                  " does not work under torch.func transforms (grad, vmap, jvp). ",
                                  "Use torch.autograd.grad");
    }
  }
  const Argument& first = *arguments.begin();
  bool wanted = false;
  for (const Argument& x : arguments) {
    if (!x.tensor) continue;
    const Tensor& t = *x.tensor;
    TORCH_CHECK_TYPE(t.layout() == at::kStrided && !t.is_nested() && !t.is_quantized(), operator_name, ": ", x.name,
                     " must be a dense tensor; got layout ", t.layout(), ". Convert it with .to_dense()");
    TORCH_CHECK_VALUE(t.device() == first.tensor->device(), operator_name, ": ", x.name, " must be on one device with ",
                      first.name, ", ", first.tensor->device(), "; got ", t.device(), ". Move it with .to()");
    TORCH_CHECK_NOT_IMPLEMENTED(!t._fw_grad(/*level=*/0).defined(), operator_name,
                                " has no forward-mode derivative. Use torch.autograd.grad");
    wanted |= t.requires_grad();
  }
  return wanted && c10::GradMode::is_enabled();
}

// With this guard a call of an operator goes to its kernels and is not recorded by autograd.
using BelowAutograd = at::AutoDispatchBelowADInplaceOrView;

// ---- the operators that have no second derivative -----------------------------------------------------------

struct Refuse : torch::autograd::Function<Refuse> {
  static variable_list forward(AutogradContext* ctx, at::TensorList, const c10::OperatorHandle* op,
                               c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    std::string name = op->schema().name();
    name = name.substr(name.rfind(':') + 1);
    ctx->saved_data["name"] = name.substr(0, name.rfind("_backward"));
    {
      const BelowAutograd guard;
      op->redispatchBoxed(keys, stack);
    }
    variable_list outputs;
    for (const c10::IValue& value : *stack) outputs.push_back(value.toTensor());
    return outputs;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list&) {
    TORCH_CHECK(false, ctx->saved_data["name"].toStringRef(), " has no second derivative");
  }
};

void refuse_second_derivative(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    const c10::IValue& value = torch::jit::peek(*stack, i, count);
    if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
  }
  keys = keys & c10::after_autograd_keyset;
  bool wanted = false;
  for (const Tensor& t : tensors) wanted |= t.requires_grad();
  if (!wanted || !c10::GradMode::is_enabled()) {
    const BelowAutograd guard;
    return op.redispatchBoxed(keys, stack);
  }
  torch::jit::Stack own = torch::jit::pop(*stack, count);
  for (Tensor& t : Refuse::apply(at::TensorList(tensors), &op, keys, &own)) stack->emplace_back(std::move(t));
}

// ---- edge_gate ----------------------------------------------------------------------------------------------

struct EdgeGate : torch::autograd::Function<EdgeGate> {
  static variable_list forward(AutogradContext* ctx, const Index& index, const Tensor& p, const Tensor& q,
                               const Tensor& w, const Tensor& c, const OptionalTensor& edge_bias,
                               const OptionalTensor& noise, const OptionalTensor& edge_ids, const GateOptions& o,
                               bool penalty, bool save) {
    const BelowAutograd guard;
    const auto [z, expected_open, mask, logit] = call_edge_gate().call(
        index.tensors, p, q, w, c, edge_bias, noise, edge_ids, o.negative_slope, o.tau, o.gamma, o.zeta, penalty, save);
    ctx->mark_non_differentiable({mask, logit});
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({p, q, w, z, mask, logit});
    save_index(ctx, index);
    ctx->saved_data["options"] = std::vector<double>{o.negative_slope, o.tau, o.gamma, o.zeta};
    ctx->saved_data["noisy"] = noise.has_value();
    ctx->saved_data["penalty"] = penalty;
    ctx->saved_data["save"] = save;
    ctx->saved_data["c_dim"] = c.dim();
    ctx->saved_data["bias"] = edge_bias.has_value() && edge_bias->requires_grad();
    return {z, expected_open, mask, logit};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    TORCH_CHECK(
        ctx->saved_data["save"].toBool(),
        "edge_gate was run without gradients, so it saved nothing for the backward. Call it with gradients enabled");
    variable_list result(11);
    const OptionalTensor grad_z = optional(grads[0]);
    const OptionalTensor grad_penalty = optional(ctx->saved_data["penalty"].toBool() ? grads[1] : Tensor());
    if (!grad_z && !grad_penalty) return result;
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<double> o = ctx->saved_data["options"].toDoubleVector();
    const bool bias = ctx->saved_data["bias"].toBool();
    auto [grad_p, grad_q, grad_w, grad_c, grad_bias] = call_edge_gate_backward().call(
        grad_z, grad_penalty, saved_index(ctx), saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], o[0], o[1],
        o[2], o[3], ctx->saved_data["noisy"].toBool(), bias);
    for (int64_t dim = ctx->saved_data["c_dim"].toInt(); dim > 0; --dim) grad_c = grad_c.unsqueeze(0);
    result[1] = grad_p, result[2] = grad_q, result[3] = grad_w, result[4] = grad_c;
    if (bias) result[5] = grad_bias;
    return result;
  }
};

std::tuple<Tensor, Tensor, Tensor, Tensor> edge_gate_autograd(
    at::TensorList index, const Tensor& p, const Tensor& q, const Tensor& w, const Tensor& c,
    const OptionalTensor& edge_bias, const OptionalTensor& noise, const OptionalTensor& edge_ids, double negative_slope,
    double tau, double gamma, double zeta, bool penalty, bool save) {
  const bool wanted = check_arguments(
      "edge_gate",
      {{"p", p}, {"q", q}, {"w", w}, {"c", c}, {"edge_bias", edge_bias}, {"noise", noise}, {"edge_ids", edge_ids}});
  if (is_separable(p, q, w, negative_slope)) {
    const SeparatedGate s(p, q, w, c, edge_bias);
    return edge_gate_autograd(index, s.p, s.q, s.w, s.c, s.edge_bias, noise, edge_ids, negative_slope, tau, gamma, zeta,
                              penalty, save);
  }
  if (wanted) {
    const variable_list made = EdgeGate::apply(Index{index}, p, q, w, c, edge_bias, noise, edge_ids,
                                               GateOptions{negative_slope, tau, gamma, zeta}, penalty, save);
    return {made[0], made[1], made[2], made[3]};
  }
  const BelowAutograd guard;
  return call_edge_gate().call(index, p, q, w, c, edge_bias, noise, edge_ids, negative_slope, tau, gamma, zeta, penalty,
                               save);
}

// ---- aggregate, edge_dot, maximum ---------------------------------------------------------------------------

struct Aggregate : torch::autograd::Function<Aggregate> {
  static Tensor forward(AutogradContext* ctx, const Index& index, const Tensor& h, const OptionalTensor& z,
                        bool to_src) {
    const BelowAutograd guard;
    ctx->save_for_backward({h, undefined(z)});
    save_index(ctx, index);
    ctx->saved_data["to_src"] = to_src;
    return call_aggregate().call(index.tensors, h, z, to_src);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const bool need_h = ctx->needs_input_grad(0), need_z = saved[1].defined() && ctx->needs_input_grad(1);
    const auto [grad_h, grad_z] = call_aggregate_backward().call(
        grads[0], saved_index(ctx), saved[0], optional(saved[1]), need_h, need_z, ctx->saved_data["to_src"].toBool());
    return {Tensor(), need_h ? grad_h : Tensor(), need_z ? grad_z : Tensor(), Tensor()};
  }
};

Tensor aggregate_autograd(at::TensorList index, const Tensor& h, const OptionalTensor& z, bool to_src) {
  if (check_arguments("aggregate", {{"h", h}, {"z", z}})) return Aggregate::apply(Index{index}, h, z, to_src);
  const BelowAutograd guard;
  return call_aggregate().call(index, h, z, to_src);
}

struct EdgeDot : torch::autograd::Function<EdgeDot> {
  static Tensor forward(AutogradContext* ctx, const Index& index, const Tensor& a, const Tensor& b) {
    const BelowAutograd guard;
    ctx->save_for_backward({a, b});
    save_index(ctx, index);
    return call_edge_dot().call(index.tensors, a, b);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<Tensor> index = saved_index(ctx);
    variable_list result(3);
    if (ctx->needs_input_grad(0)) result[1] = call_aggregate().call(index, saved[1], grads[0], true);
    if (ctx->needs_input_grad(1)) result[2] = call_aggregate().call(index, saved[0], grads[0], false);
    return result;
  }
};

Tensor edge_dot_autograd(at::TensorList index, const Tensor& a, const Tensor& b) {
  if (check_arguments("edge_dot", {{"a", a}, {"b", b}})) return EdgeDot::apply(Index{index}, a, b);
  const BelowAutograd guard;
  return call_edge_dot().call(index, a, b);
}

struct Maximum : torch::autograd::Function<Maximum> {
  static variable_list forward(AutogradContext* ctx, const Index& index, const Tensor& h, const OptionalTensor& z) {
    const BelowAutograd guard;
    const auto [out, arg] = call_maximum().call(index.tensors, h, z);
    ctx->mark_non_differentiable({arg});
    ctx->save_for_backward({h, undefined(z), arg});
    save_index(ctx, index);
    return {out, arg};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const bool need_h = ctx->needs_input_grad(0), need_z = saved[1].defined() && ctx->needs_input_grad(1);
    const auto [grad_h, grad_z] = call_maximum_backward().call(grads[0], saved_index(ctx), saved[0], optional(saved[1]),
                                                               saved[2], need_h, need_z);
    return {Tensor(), need_h ? grad_h : Tensor(), need_z ? grad_z : Tensor()};
  }
};

std::tuple<Tensor, Tensor> maximum_autograd(at::TensorList index, const Tensor& h, const OptionalTensor& z) {
  if (check_arguments("maximum", {{"h", h}, {"z", z}})) {
    const variable_list made = Maximum::apply(Index{index}, h, z);
    return {made[0], made[1]};
  }
  const BelowAutograd guard;
  return call_maximum().call(index, h, z);
}

// ---- degrees ------------------------------------------------------------------------------------------------

// segment_sum and segment_spread. Each is the other's transpose, so they have derivatives of every order.
template <bool spread>
struct Segments : torch::autograd::Function<Segments<spread>> {
  static Tensor forward(AutogradContext* ctx, const Index& index, const Tensor& x, bool by_src) {
    const BelowAutograd guard;
    save_index(ctx, index);
    ctx->saved_data["by_src"] = by_src;
    return (spread ? call_segment_spread() : call_segment_sum()).call(index.tensors, x, by_src);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto& transposed = spread ? call_segment_sum() : call_segment_spread();
    return {Tensor(), transposed.call(saved_index(ctx), grads[0], ctx->saved_data["by_src"].toBool()), Tensor()};
  }
};

template <bool spread>
Tensor segments_autograd(at::TensorList index, const Tensor& x, bool by_src) {
  if (check_arguments(spread ? "segment_spread" : "degrees", {{spread ? "x" : "z", x}}))
    return Segments<spread>::apply(Index{index}, x, by_src);
  const BelowAutograd guard;
  return (spread ? call_segment_spread() : call_segment_sum()).call(index, x, by_src);
}

struct NormalizeGates : torch::autograd::Function<NormalizeGates> {
  static variable_list forward(AutogradContext* ctx, const Index& index, const Tensor& z, const NormalizeOptions& o) {
    const BelowAutograd guard;
    const auto [w, out_deg, in_deg] = call_normalize().call(index.tensors, z, o.left, o.right, o.floor);
    ctx->mark_non_differentiable({out_deg, in_deg});
    ctx->save_for_backward({w, out_deg, in_deg});
    save_index(ctx, index);
    ctx->saved_data["options"] = std::vector<double>{o.left, o.right, o.floor};
    return {w, out_deg, in_deg};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<double> o = ctx->saved_data["options"].toDoubleVector();
    return {Tensor(),
            call_normalize_backward().call(grads[0], saved_index(ctx), saved[0], saved[1], saved[2], o[0], o[1], o[2]),
            Tensor()};
  }
};

std::tuple<Tensor, Tensor, Tensor> normalize_autograd(at::TensorList index, const Tensor& z, double left, double right,
                                                      double floor) {
  if (check_arguments("normalize", {{"z", z}})) {
    const variable_list made = NormalizeGates::apply(Index{index}, z, NormalizeOptions{left, right, floor});
    return {made[0], made[1], made[2]};
  }
  const BelowAutograd guard;
  return call_normalize().call(index, z, left, right, floor);
}

// ---- attention ----------------------------------------------------------------------------------------------

struct Attention : torch::autograd::Function<Attention> {
  static variable_list forward(AutogradContext* ctx, const Index& index, const Tensor& h, const OptionalTensor& el,
                               const OptionalTensor& er, const OptionalTensor& scores, const OptionalTensor& z,
                               double negative_slope, bool weights) {
    const BelowAutograd guard;
    const auto [out, max, sum, shares] =
        call_attention().call(index.tensors, h, el, er, scores, z, negative_slope, weights);
    ctx->mark_non_differentiable({max, sum});
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({h, undefined(el), undefined(er), undefined(scores), undefined(z), out, max, sum, shares});
    save_index(ctx, index);
    ctx->saved_data["negative_slope"] = negative_slope;
    ctx->saved_data["weights"] = weights;
    return {out, max, sum, shares};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const OptionalTensor grad = optional(grads[0]);
    const OptionalTensor grad_weights = optional(ctx->saved_data["weights"].toBool() ? grads[3] : Tensor());
    variable_list result(8);
    if (!grad && !grad_weights) return result;
    const variable_list saved = ctx->get_saved_variables();
    // needs_input_grad counts only the inputs that were given.
    bool need[5] = {};
    for (size_t i = 0, input = 0; i < 5; ++i)
      if (saved[i].defined()) need[i] = ctx->needs_input_grad(input++);
    const auto [grad_h, grad_el, grad_er, grad_scores, grad_z] =
        call_attention_backward().call(grad, grad_weights, saved_index(ctx), saved[0], optional(saved[1]),
                                       optional(saved[2]), optional(saved[3]), optional(saved[4]), saved[5], saved[6],
                                       saved[7], saved[8], ctx->saved_data["negative_slope"].toDouble(), need[4]);
    const Tensor made[5] = {grad_h, grad_el, grad_er, grad_scores, grad_z};
    for (size_t i = 0; i < 5; ++i)
      if (need[i]) result[i + 1] = made[i];
    return result;
  }
};

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_autograd(at::TensorList index, const Tensor& h,
                                                              const OptionalTensor& el, const OptionalTensor& er,
                                                              const OptionalTensor& scores, const OptionalTensor& z,
                                                              double negative_slope, bool weights) {
  if (check_arguments("attention", {{"h", h}, {"el", el}, {"er", er}, {"scores", scores}, {"z", z}})) {
    const variable_list made = Attention::apply(Index{index}, h, el, er, scores, z, negative_slope, weights);
    return {made[0], made[1], made[2], made[3]};
  }
  const BelowAutograd guard;
  return call_attention().call(index, h, el, er, scores, z, negative_slope, weights);
}

struct EdgeScores : torch::autograd::Function<EdgeScores> {
  static Tensor forward(AutogradContext* ctx, const Index& index, const Tensor& p, const Tensor& q, const Tensor& w,
                        double negative_slope) {
    const BelowAutograd guard;
    ctx->save_for_backward({p, q, w});
    save_index(ctx, index);
    ctx->saved_data["negative_slope"] = negative_slope;
    return call_edge_scores().call(index.tensors, p, q, w, negative_slope);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto [grad_p, grad_q, grad_w] = call_edge_scores_backward().call(
        grads[0], saved_index(ctx), saved[0], saved[1], saved[2], ctx->saved_data["negative_slope"].toDouble());
    return {Tensor(), where_needed(ctx, 0, grad_p), where_needed(ctx, 1, grad_q), where_needed(ctx, 2, grad_w),
            Tensor()};
  }
};

Tensor edge_scores_autograd(at::TensorList index, const Tensor& p, const Tensor& q, const Tensor& w,
                            double negative_slope) {
  if (check_arguments("edge_scores", {{"p", p}, {"q", q}, {"w", w}}))
    return EdgeScores::apply(Index{index}, p, q, w, negative_slope);
  const BelowAutograd guard;
  return call_edge_scores().call(index, p, q, w, negative_slope);
}

// ---- autocast -----------------------------------------------------------------------------------------------

// Rows keep the dtype that they have under autocast; of two kinds of rows, both get the wider dtype. The numbers that
// go with rows become float32, or float64 with float64 rows.

const c10::DispatchKeySet autocast_keys({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA});
using NoAutocast = c10::impl::ExcludeDispatchKeyGuard;

Tensor cast(const Tensor& t, at::ScalarType dtype) {
  return t.scalar_type() == dtype || !t.is_floating_point() ? t : t.to(dtype);
}
OptionalTensor cast(const OptionalTensor& t, at::ScalarType dtype) {
  return t ? OptionalTensor(cast(*t, dtype)) : std::nullopt;
}
at::ScalarType wider(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() ? a.scalar_type() : c10::promoteTypes(a.scalar_type(), b.scalar_type());
}
at::ScalarType acc_of(at::ScalarType rows) { return rows == at::kDouble ? at::kDouble : at::kFloat; }

std::tuple<Tensor, Tensor, Tensor, Tensor> edge_gate_autocast(
    at::TensorList index, const Tensor& p, const Tensor& q, const Tensor& w, const Tensor& c,
    const OptionalTensor& edge_bias, const OptionalTensor& noise, const OptionalTensor& edge_ids, double negative_slope,
    double tau, double gamma, double zeta, bool penalty, bool save) {
  const NoAutocast guard(autocast_keys);
  const at::ScalarType rows = wider(p, q), acc = acc_of(rows);
  return call_edge_gate().call(index, cast(p, rows), cast(q, rows), cast(w, acc), cast(c, acc), cast(edge_bias, acc),
                               noise, edge_ids, negative_slope, tau, gamma, zeta, penalty, save);
}

Tensor aggregate_autocast(at::TensorList index, const Tensor& h, const OptionalTensor& z, bool to_src) {
  const NoAutocast guard(autocast_keys);
  return call_aggregate().call(index, h, cast(z, acc_of(h.scalar_type())), to_src);
}

std::tuple<Tensor, Tensor> maximum_autocast(at::TensorList index, const Tensor& h, const OptionalTensor& z) {
  const NoAutocast guard(autocast_keys);
  return call_maximum().call(index, h, cast(z, acc_of(h.scalar_type())));
}

Tensor edge_dot_autocast(at::TensorList index, const Tensor& a, const Tensor& b) {
  const NoAutocast guard(autocast_keys);
  const at::ScalarType rows = wider(a, b);
  return call_edge_dot().call(index, cast(a, rows), cast(b, rows));
}

Tensor segment_sum_autocast(at::TensorList index, const Tensor& x, bool by_src) {
  const NoAutocast guard(autocast_keys);
  return call_segment_sum().call(index, cast(x, acc_of(x.scalar_type())), by_src);
}

std::tuple<Tensor, Tensor, Tensor> normalize_autocast(at::TensorList index, const Tensor& z, double left, double right,
                                                      double floor) {
  const NoAutocast guard(autocast_keys);
  return call_normalize().call(index, cast(z, acc_of(z.scalar_type())), left, right, floor);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_autocast(at::TensorList index, const Tensor& h,
                                                              const OptionalTensor& el, const OptionalTensor& er,
                                                              const OptionalTensor& scores, const OptionalTensor& z,
                                                              double negative_slope, bool weights) {
  const NoAutocast guard(autocast_keys);
  const at::ScalarType acc = acc_of(h.scalar_type());
  return call_attention().call(index, h, cast(el, acc), cast(er, acc), cast(scores, acc), cast(z, acc), negative_slope,
                               weights);
}

Tensor edge_scores_autocast(at::TensorList index, const Tensor& p, const Tensor& q, const Tensor& w,
                            double negative_slope) {
  const NoAutocast guard(autocast_keys);
  const at::ScalarType rows = wider(p, q);
  return call_edge_scores().call(index, cast(p, rows), cast(q, rows), cast(w, acc_of(rows)), negative_slope);
}

void register_autocast(torch::Library& m) {
  m.impl("edge_gate", edge_gate_autocast);
  m.impl("aggregate", aggregate_autocast);
  m.impl("maximum", maximum_autocast);
  m.impl("edge_dot", edge_dot_autocast);
  m.impl("segment_sum", segment_sum_autocast);
  m.impl("normalize", normalize_autocast);
  m.impl("attention", attention_autocast);
  m.impl("edge_scores", edge_scores_autocast);
}

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, Autograd, m) {
  m.impl("edge_gate", edge_gate_autograd);
  m.impl("aggregate", aggregate_autograd);
  m.impl("edge_dot", edge_dot_autograd);
  m.impl("maximum", maximum_autograd);
  m.impl("segment_sum", segments_autograd<false>);
  m.impl("segment_spread", segments_autograd<true>);
  m.impl("normalize", normalize_autograd);
  m.impl("attention", attention_autograd);
  m.impl("edge_scores", edge_scores_autograd);
  for (const char* name : {"edge_gate_backward", "aggregate_backward", "maximum_backward", "normalize_backward",
                           "attention_backward", "edge_scores_backward"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<refuse_second_derivative>());
}

TORCH_LIBRARY_IMPL(dgl_ptdnet, AutocastCPU, m) { register_autocast(m); }
TORCH_LIBRARY_IMPL(dgl_ptdnet, AutocastCUDA, m) { register_autocast(m); }

}  // namespace dgl_ptdnet
