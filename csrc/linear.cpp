// Several linear maps of one matrix by torch's own products. Results get memory that is reused from step to step, and
// each product adds its gradient of the matrix to the sum of the earlier ones.
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

#include "core/memory.h"

namespace dgl_ptdnet {
namespace {

using at::Tensor;

void check(const Tensor& x, at::TensorList weights) {
  for (const Tensor& weight : weights)
    TORCH_CHECK_VALUE(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1),
                      "x must be [N, F] and every weight [S, F]; got ", x.sizes(), " and ", weight.sizes());
}

std::vector<Tensor> linear(const Tensor& x, at::TensorList weights, const c10::List<std::optional<Tensor>>& biases) {
  check(x, weights);
  TORCH_CHECK_VALUE(biases.size() == weights.size(), "biases must have an entry for each weight");
  std::vector<Tensor> results;
  for (size_t i = 0; i < weights.size(); ++i) {
    // Products are slower if their width is no multiple of 16. A single result stays dense: a layer may return it.
    const int64_t size = weights[i].size(0), rest = weights.size() == 1 || size < 16 ? 0 : (16 - size % 16) % 16;
    const auto padded = [&](const Tensor& t, at::IntArrayRef by) { return rest ? at::constant_pad_nd(t, by) : t; };
    const Tensor weight = padded(weights[i], {0, 0, 0, rest}).t();
    const std::optional<Tensor> bias = biases[i];
    Tensor out = empty({x.size(0), size + rest}, x.options());
    bias ? at::addmm_out(out, padded(*bias, {0, rest}), x, weight) : at::mm_out(out, x, weight);
    results.push_back(rest ? out.narrow(1, 0, size) : out);
  }
  return results;
}

std::tuple<Tensor, std::vector<Tensor>> linear_backward(at::TensorList grads, const Tensor& x, at::TensorList weights,
                                                        bool need_x, bool need_weights) {
  check(x, weights);
  TORCH_CHECK_VALUE(grads.size() == weights.size(), "grads must have a matrix for each weight");
  Tensor grad_x = empty(need_x ? x.sizes() : at::IntArrayRef{0}, x.options());
  std::vector<Tensor> grad_weights;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (need_x && i == 0) at::mm_out(grad_x, grads[i], weights[i]);
    if (need_x && i > 0) grad_x.addmm_(grads[i], weights[i]);
    if (need_weights) grad_weights.push_back(grads[i].t().mm(x));
  }
  return {grad_x, grad_weights};
}

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, CompositeExplicitAutograd, m) {
  m.impl("linear", linear);
  m.impl("linear_backward", linear_backward);
}

}  // namespace dgl_ptdnet
