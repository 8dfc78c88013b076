// From tensors to the kernels' plain arguments, for both devices: the only place where users' tensors are judged.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "edge_gate.h"
#include "memory.h"

namespace dgl_ptdnet {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// The largest number of edges or nodes: positions and ids are 32-bit inside.
constexpr int64_t max_count = (int64_t{1} << 31) - 2;

inline void check_edge_list(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst) {
  TORCH_CHECK_VALUE(src.dim() == 1 && dst.dim() == 1 && src.size(0) == dst.size(0),
                    "src and dst must be 1-D and of one length, one entry an edge; got shapes ", src.sizes(), " and ",
                    dst.sizes());
  TORCH_CHECK_TYPE(
      (src.scalar_type() == at::kInt || src.scalar_type() == at::kLong) && src.scalar_type() == dst.scalar_type(),
      "src and dst must both be int32 or both int64; got ", src.scalar_type(), " and ", dst.scalar_type(),
      ". Convert them with .long()");
  TORCH_CHECK_VALUE(src.device() == dst.device(), "src and dst must be on one device; got ", src.device(), " and ",
                    dst.device());
  TORCH_CHECK_VALUE(num_src >= 0 && num_dst >= 0, "num_src and num_dst must not be negative; got ", num_src, " and ",
                    num_dst);
  TORCH_CHECK_VALUE(src.size(0) <= max_count && num_src <= max_count && num_dst <= max_count,
                    "a graph may have at most ", max_count, " edges and nodes of a kind; got ", src.size(0), " edges, ",
                    num_src, " sources, ", num_dst, " destinations. Split the graph");
}

[[noreturn]] inline void id_out_of_range(const char* name, int64_t id, int64_t edge, int64_t count) {
  TORCH_CHECK_INDEX(false, name, "[", edge, "] = ", id, " is out of range: there are ", count,
                    " such nodes, so ids go from 0 to ", count - 1,
                    ". Pass features for every node, or correct the edge list");
}

inline at::ScalarType acc_type(const Tensor& p) { return p.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

inline Dtype row_dtype(const Tensor& p) {
  switch (p.scalar_type()) {
    case at::kFloat:
      return Dtype::f32;
    case at::kDouble:
      return Dtype::f64;
    case at::kBFloat16:
      return Dtype::bf16;
    case at::kHalf:
      return Dtype::f16;
    default:
      TORCH_CHECK_TYPE(false, "p and q must be float32, float64, bfloat16 or float16; got ", p.scalar_type());
  }
}

// Rows one after another within, any distance between them: halves of one projection need no copy.
inline Tensor dense_rows(const Tensor& x) { return x.size(1) <= 1 || x.stride(1) == 1 ? x : x.contiguous(); }

struct IndexTensors {
  const Tensor &in_ptr, &in_src, &in_dst, &in_edge, &out_ptr, &out_pos;

  EdgeIndexView view(const Tensor& p, const Tensor& q) const {
    const int64_t edges = in_src.size(0), num_src = out_ptr.size(0) - 1, num_dst = in_ptr.size(0) - 1;
    TORCH_CHECK_VALUE(p.size(0) == num_src && q.size(0) == num_dst, "p has ", p.size(0), " rows and q ", q.size(0),
                      ", but the index was made for ", num_src, " sources and ", num_dst,
                      " destinations. Make it anew: EdgeIndex(src, dst, len(p), len(q))");
    for (const Tensor* t : {&in_ptr, &in_src, &in_dst, &in_edge, &out_ptr, &out_pos}) {
      TORCH_CHECK_VALUE(t->device() == p.device(), "the index is on ", t->device(), ", but p is on ", p.device(),
                        ". Make it from src and dst on that device");
      TORCH_CHECK_TYPE(t->scalar_type() == at::kInt && t->is_contiguous(),
                       "the index must hold contiguous int32 tensors, as edge_index returns them");
    }
    TORCH_CHECK_VALUE(in_dst.size(0) == edges && in_edge.size(0) == edges && out_pos.size(0) == edges,
                      "the index's tensors disagree on the number of edges");
    return {in_ptr.const_data_ptr<int32_t>(),
            in_src.const_data_ptr<int32_t>(),
            in_dst.const_data_ptr<int32_t>(),
            in_edge.const_data_ptr<int32_t>(),
            out_ptr.const_data_ptr<int32_t>(),
            out_pos.const_data_ptr<int32_t>(),
            edges,
            num_src,
            num_dst};
  }
};

// Holds the tensors that the pointers lead into, for as long as the kernels run.
struct GateTensors {
  Tensor p, q, w;

  EdgeGateInputs inputs(const IndexTensors& index, double negative_slope, double tau, double gamma, double zeta,
                        bool noisy) {
    TORCH_CHECK_VALUE(p.dim() == 2 && q.dim() == 2 && p.size(1) == q.size(1) && p.size(1) >= 1,
                      "p must be [N_src, H] and q [N_dst, H] with one H >= 1; got ", p.sizes(), " and ", q.sizes());
    TORCH_CHECK_VALUE(p.device() == q.device() && p.device() == w.device(), "p, q and w must be on one device; got ",
                      p.device(), ", ", q.device(), " and ", w.device());
    const Dtype dtype = row_dtype(p);
    TORCH_CHECK_TYPE(p.scalar_type() == q.scalar_type(), "p and q must have one dtype; got ", p.scalar_type(), " and ",
                     q.scalar_type());
    TORCH_CHECK_TYPE(w.scalar_type() == acc_type(p), "w must be ", acc_type(p), " where p is ", p.scalar_type(),
                     "; got ", w.scalar_type());
    TORCH_CHECK_VALUE(w.dim() == 1 && w.size(0) == p.size(1), "w must be [H] with H = ", p.size(1), "; got ",
                      w.sizes());
    TORCH_CHECK_VALUE(tau > 0, "tau must be positive; got ", tau);
    TORCH_CHECK_VALUE(gamma < 0 && zeta > 1,
                      "gamma < 0 and zeta > 1 must hold, else no gate is ever exactly 0 or 1; "
                      "got gamma = ",
                      gamma, " and zeta = ", zeta);
    TORCH_CHECK_VALUE(
        std::isfinite(tau) && std::isfinite(gamma) && std::isfinite(zeta) && std::isfinite(negative_slope),
        "tau, gamma, zeta and negative_slope must be finite");
    const EdgeIndexView view = index.view(p, q);
    p = dense_rows(p), q = dense_rows(q), w = w.contiguous();
    return {view,
            dtype,
            p.const_data_ptr(),
            q.const_data_ptr(),
            p.stride(0),
            q.stride(0),
            p.size(1),
            w.const_data_ptr(),
            negative_slope,
            tau,
            gamma,
            zeta,
            noisy};
  }
};

struct ForwardTensors : GateTensors {
  Tensor c;
  OptionalTensor edge_bias, noise, edge_ids;
  Tensor z, penalty, mask, logit;

  EdgeGateForward args(const IndexTensors& index, double negative_slope, double tau, double gamma, double zeta,
                       bool with_penalty, bool save) {
    EdgeGateForward a{};
    static_cast<EdgeGateInputs&>(a) = inputs(index, negative_slope, tau, gamma, zeta, noise.has_value());
    const int64_t edges = a.index.edges;
    const auto like = p.options().dtype(acc_type(p));
    const auto check = [&](const char* name, const Tensor& t, at::ScalarType dtype) {
      TORCH_CHECK_VALUE(t.device() == p.device(), name, " must be on ", p.device(), " like p; got ", t.device());
      TORCH_CHECK_TYPE(t.scalar_type() == dtype, name, " must be ", dtype, "; got ", t.scalar_type());
    };
    check("c", c, acc_type(p));
    TORCH_CHECK_VALUE(c.numel() == 1, "c must be one number; got shape ", c.sizes());
    a.c = c.const_data_ptr();
    if (edge_bias) {
      check("edge_bias", *edge_bias, acc_type(p));
      TORCH_CHECK_VALUE(edge_bias->dim() == 1 && edge_bias->size(0) == edges, "edge_bias must be [E] with E = ", edges,
                        "; got ", edge_bias->sizes());
      edge_bias = edge_bias->contiguous();
      a.edge_bias = edge_bias->const_data_ptr();
    }
    if (noise) {
      check("noise", *noise, at::kLong);
      TORCH_CHECK_VALUE(noise->dim() == 1 && noise->size(0) == 2, "noise must be int64[2], (seed, offset); got ",
                        noise->sizes());
      noise = noise->contiguous();
      a.noise = noise->const_data_ptr<int64_t>();
    }
    if (edge_ids) {
      check("edge_ids", *edge_ids, at::kLong);
      TORCH_CHECK_VALUE(edge_ids->dim() == 1 && edge_ids->size(0) == edges, "edge_ids must be [E] with E = ", edges,
                        "; got ", edge_ids->sizes());
      edge_ids = edge_ids->contiguous();
      a.edge_ids = edge_ids->const_data_ptr<int64_t>();
    }
    z = empty({edges}, like);
    penalty = with_penalty ? empty({}, like) : empty({0}, like);
    mask = empty({save ? edges : 0, mask_bytes(a.hidden)}, p.options().dtype(at::kByte));
    logit = empty({save && with_penalty ? edges : 0}, like);
    a.z = z.mutable_data_ptr();
    a.penalty = with_penalty ? penalty.mutable_data_ptr() : nullptr;
    a.mask = mask.numel() ? mask.mutable_data_ptr<uint8_t>() : nullptr;
    a.logit = logit.numel() ? logit.mutable_data_ptr() : nullptr;
    return a;
  }
  std::tuple<Tensor, Tensor, Tensor, Tensor> outputs() const { return {z, penalty, mask, logit}; }
};

struct BackwardTensors : GateTensors {
  OptionalTensor grad_z, grad_penalty;
  Tensor z, mask, logit;
  Tensor grad_p, grad_q, grad_w, grad_c, grad_bias;

  EdgeGateBackward args(const IndexTensors& index, double negative_slope, double tau, double gamma, double zeta,
                        bool noisy, bool bias) {
    EdgeGateBackward a{};
    static_cast<EdgeGateInputs&>(a) = inputs(index, negative_slope, tau, gamma, zeta, noisy);
    const int64_t edges = a.index.edges;
    const auto like = p.options().dtype(acc_type(p));
    const auto pointer = [&](const char* name, Tensor& t, int64_t count) {
      TORCH_CHECK_VALUE(t.device() == p.device() && t.scalar_type() == acc_type(p) && t.numel() == count, name,
                        " must hold ", count, " numbers of ", acc_type(p), " on ", p.device());
      t = t.contiguous();
      return t.const_data_ptr();
    };
    a.z = pointer("z", z, edges);
    TORCH_CHECK_VALUE(mask.scalar_type() == at::kByte && mask.is_contiguous() && mask.device() == p.device() &&
                          mask.numel() == edges * mask_bytes(a.hidden),
                      "the forward kept nothing for a backward: call edge_gate with save=True");
    a.mask = mask.numel() ? mask.const_data_ptr<uint8_t>() : nullptr;
    if (grad_z) a.grad_z = pointer("grad_z", *grad_z, edges);
    if (grad_penalty) {
      a.grad_penalty = pointer("grad_penalty", *grad_penalty, 1);
      a.logit = pointer("logit", logit, edges);
    }
    grad_p = empty({a.index.num_src, a.hidden}, p.options());
    grad_q = empty({a.index.num_dst, a.hidden}, p.options());
    grad_w = empty({a.hidden}, like);
    grad_c = empty({}, like);
    grad_bias = empty({bias ? edges : 0}, like);
    a.grad_p = grad_p.mutable_data_ptr();
    a.grad_q = grad_q.mutable_data_ptr();
    a.grad_w = grad_w.mutable_data_ptr();
    a.grad_c = grad_c.mutable_data_ptr();
    a.grad_bias = grad_bias.numel() ? grad_bias.mutable_data_ptr() : nullptr;
    return a;
  }
  std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> outputs() const {
    return {grad_p, grad_q, grad_w, grad_c, grad_bias};
  }
};

}  // namespace dgl_ptdnet
