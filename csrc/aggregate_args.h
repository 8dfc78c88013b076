// From tensors to the plain arguments of aggregate, maximum and the degrees, for both devices.
#pragma once

#include "aggregate.h"
#include "edge_gate_args.h"

namespace dgl_ptdnet {

// The tensors of EdgeIndex.sides: of one side, ptr, node and edge.
struct SideTensors {
  const Tensor &ptr, &node, &edge;

  // A side that serves tensors on `device`, whose other side has `others` rows.
  EdgeSide view(at::Device device, int64_t others) const {
    for (const Tensor* t : {&ptr, &node, &edge}) {
      TORCH_CHECK_VALUE(t->device() == device, "the index is on ", t->device(), ", but the features are on ", device,
                        ". Make it from src and dst on that device");
      TORCH_CHECK_TYPE(t->scalar_type() == at::kInt && t->is_contiguous() && t->dim() == 1,
                       "the index must hold contiguous int32 tensors, as EdgeIndex.sides does");
    }
    TORCH_CHECK_VALUE(ptr.size(0) >= 1 && node.size(0) == edge.size(0),
                      "the index's tensors disagree on the number of edges");
    return {ptr.const_data_ptr<int32_t>(),
            node.const_data_ptr<int32_t>(),
            edge.const_data_ptr<int32_t>(),
            ptr.size(0) - 1,
            others,
            edge.size(0)};
  }
};

// Judges one argument after another, each against the first: the rows that the operator works on.
struct Judge {
  const char* name;  // of the first
  const Tensor& rows;

  Dtype dtype() const {
    TORCH_CHECK_TYPE(rows.scalar_type() == at::kFloat || rows.scalar_type() == at::kDouble ||
                         rows.scalar_type() == at::kBFloat16 || rows.scalar_type() == at::kHalf,
                     name, " must be float32, float64, bfloat16 or float16; got ", rows.scalar_type(),
                     ". Convert it with .float()");
    return row_dtype(rows);
  }

  // Rows of a side's nodes, heads x feats numbers each; returned with dense rows.
  Tensor row_matrix(const char* what, const Tensor& t, int64_t count, const char* nodes, int64_t width) const {
    TORCH_CHECK_VALUE(t.dim() == 2, what, " must have two dimensions here; got shape ", t.sizes());
    TORCH_CHECK_VALUE(t.size(0) == count, what, " has ", t.size(0), " rows, but the index was made for ", count, " ",
                      nodes, ". Pass a row for each, or make the index anew");
    TORCH_CHECK_VALUE(t.size(1) == width, what, " must have ", width, " numbers a row; got ", t.size(1));
    TORCH_CHECK_VALUE(t.device() == rows.device(), what, " must be on ", rows.device(), " like ", name, "; got ",
                      t.device());
    TORCH_CHECK_TYPE(t.scalar_type() == rows.scalar_type(), what, " must be ", rows.scalar_type(), " like ", name,
                     "; got ", t.scalar_type());
    return dense_rows(t);
  }

  // Numbers of acc, [count] or [count, heads]; returned contiguous.
  Tensor numbers(const char* what, const Tensor& t, int64_t count, const char* things, int64_t heads) const {
    TORCH_CHECK_VALUE(t.device() == rows.device(), what, " must be on ", rows.device(), " like ", name, "; got ",
                      t.device());
    TORCH_CHECK_TYPE(t.scalar_type() == acc_type(rows), what, " must be ", acc_type(rows), " where ", name, " is ",
                     rows.scalar_type(), "; got ", t.scalar_type(), ". Convert it with .to(", acc_type(rows), ")");
    TORCH_CHECK_VALUE((t.dim() == 1 && heads == 1) || (t.dim() == 2 && t.size(1) == heads), what, " must have ", heads,
                      " numbers for each of the ", things, "; got shape ", t.sizes());
    TORCH_CHECK_VALUE(t.size(0) == count, what, " has ", t.size(0), " entries, but the index has ", count, " ", things,
                      ". Pass one for each, in the order of src and dst");
    return t.contiguous();
  }
};

// How many numbers of h's rows belong together under one gate.
inline int64_t count_heads(const OptionalTensor& z, const Tensor& h) {
  const int64_t heads = z && z->dim() == 2 ? z->size(1) : 1;
  TORCH_CHECK_VALUE(h.dim() == 2 && h.size(1) >= 1, "h must be [N_src, F] with F >= 1; got shape ", h.sizes());
  TORCH_CHECK_VALUE(heads >= 1 && h.size(1) % heads == 0, "z is given for ", heads, " heads, but h's rows of ",
                    h.size(1), " numbers do not fall into as many parts");
  return heads;
}

inline void* pointer(const Tensor& t) { return t.defined() && t.numel() ? t.mutable_data_ptr() : nullptr; }

// The structs hold the tensors that the pointers lead into, for as long as the kernels run.
struct AggregateTensors {
  Tensor h;
  OptionalTensor z;
  Tensor out;

  AggregateForward args(const SideTensors& in, const Tensor& out_ptr) {
    const Judge judge{"h", h};
    AggregateForward a{};
    a.dtype = judge.dtype();
    a.heads = count_heads(z, h);
    a.feats = h.size(1) / a.heads;
    a.in = in.view(h.device(), out_ptr.size(0) - 1);
    h = judge.row_matrix("h", h, a.in.others, "sources", h.size(1));
    if (z) z = judge.numbers("z", *z, a.in.edges, "edges", a.heads);
    out = empty({a.in.rows, h.size(1)}, h.options());
    a.h = h.const_data_ptr(), a.h_stride = h.stride(0);
    a.z = z ? z->const_data_ptr() : nullptr;
    a.out = out.mutable_data_ptr();
    return a;
  }
};

struct AggregateBackwardTensors {
  Tensor grad, h;
  OptionalTensor z;
  OptionalTensor arg;
  Tensor grad_h, grad_z;

  AggregateBackward args(const SideTensors& out, bool need_h, bool need_z) {
    const Judge judge{"h", h};
    AggregateBackward a{};
    a.dtype = judge.dtype();
    a.heads = count_heads(z, h);
    a.feats = h.size(1) / a.heads;
    a.out = out.view(h.device(), grad.size(0));
    TORCH_CHECK_VALUE(z || !need_z, "without z it has no gradient");
    h = judge.row_matrix("h", h, a.out.rows, "sources", h.size(1));
    grad = judge.row_matrix("grad", grad, grad.size(0), "destinations", h.size(1));
    grad_z = empty({0}, h.options().dtype(acc_type(h)));
    if (z) z = judge.numbers("z", *z, a.out.edges, "edges", a.heads);
    if (arg) {
      TORCH_CHECK_VALUE(a.heads == 1 && arg->scalar_type() == at::kInt && arg->is_contiguous() &&
                            arg->device() == h.device() && arg->sizes() == grad.sizes(),
                        "arg must be what maximum returned beside its result");
      a.arg = arg->const_data_ptr<int32_t>();
    }
    grad_h = empty({need_h ? h.size(0) : 0, h.size(1)}, h.options());
    if (need_z) grad_z = empty(z->sizes(), z->options());
    a.h = h.const_data_ptr(), a.h_stride = h.stride(0);
    a.grad = grad.const_data_ptr(), a.grad_stride = grad.stride(0);
    a.z = z ? z->const_data_ptr() : nullptr;
    a.grad_h = pointer(grad_h), a.grad_z = pointer(grad_z);
    return a;
  }
};

struct MaximumTensors {
  Tensor h;
  OptionalTensor z;
  Tensor out, arg;

  MaximumForward args(const SideTensors& in, const Tensor& out_ptr) {
    TORCH_CHECK_VALUE(!z || z->dim() == 1, "z must be [E]: maximum has no heads; got shape ", z->sizes());
    AggregateTensors t{h, z, {}};
    const AggregateForward same = t.args(in, out_ptr);
    h = t.h, z = t.z, out = t.out;
    arg = empty(out.sizes(), out.options().dtype(at::kInt));
    return {same.in, same.dtype, same.feats, same.h, same.h_stride, same.z, same.out, arg.mutable_data_ptr<int32_t>()};
  }
};

}  // namespace dgl_ptdnet
