// Checks users' tensors, with the same messages for every operator and device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <optional>
#include <vector>

#include "memory.h"
#include "types.h"

namespace dgl_ptdnet {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// The name of a dtype in Python.
inline const char* dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "torch.float32";
    case at::kDouble:
      return "torch.float64";
    case at::kBFloat16:
      return "torch.bfloat16";
    case at::kHalf:
      return "torch.float16";
    case at::kInt:
      return "torch.int32";
    case at::kLong:
      return "torch.int64";
    case at::kBool:
      return "torch.bool";
    default:
      return c10::toString(dtype);
  }
}

// The dtype of the sums, gates and scores that go with rows.
inline at::ScalarType acc_type(const Tensor& rows) {
  return rows.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

inline const void* data(const OptionalTensor& t) { return t ? t->const_data_ptr() : nullptr; }
inline void* out_data(const Tensor& t) { return t.defined() && t.numel() ? t.mutable_data_ptr() : nullptr; }

inline void check_finite(const char* name, double value) {
  TORCH_CHECK_VALUE(std::isfinite(value), name, " must be finite; got ", value);
}

inline void check_negative_slope(double negative_slope) {
  TORCH_CHECK_VALUE(std::isfinite(negative_slope) && negative_slope >= 0,
                    "negative_slope must be finite and not negative; got ", negative_slope);
}

// Checks one argument after another, each against the rows that the operator works on, its first tensor.
class ArgumentChecks {
 public:
  ArgumentChecks(const char* name, const Tensor& first) : name_(name), first_(first) {}

  const Tensor& first() const { return first_; }
  const char* name() const { return name_; }
  at::ScalarType acc() const { return acc_type(first_); }
  at::TensorOptions acc_options() const { return first_.options().dtype(acc()); }

  // The dtype of rows of features.
  Dtype dtype() const {
    switch (first_.scalar_type()) {
      case at::kFloat:
        return Dtype::f32;
      case at::kDouble:
        return Dtype::f64;
      case at::kBFloat16:
        return Dtype::bf16;
      case at::kHalf:
        return Dtype::f16;
      default:
        TORCH_CHECK_TYPE(false, name_, " must be float32, float64, bfloat16 or float16; got ",
                         dtype_name(first_.scalar_type()), ". Convert it with .float()");
    }
  }

  // The dtype of numbers of edges or nodes, for operators without rows.
  Dtype acc_dtype() const {
    TORCH_CHECK_TYPE(first_.scalar_type() == at::kFloat || first_.scalar_type() == at::kDouble, name_,
                     " must be float32 or float64; got ", dtype_name(first_.scalar_type()),
                     ". Convert it with .float()");
    return dtype();
  }

  void device(const char* what, const Tensor& t) const {
    TORCH_CHECK_VALUE(t.device() == first_.device(), what, " must be on one device with ", name_, ", ", first_.device(),
                      "; got ", t.device(), ". Move it with .to()");
  }

  void same_dtype(const char* what, const Tensor& t) const {
    TORCH_CHECK_TYPE(t.scalar_type() == first_.scalar_type(), what, " must be ", dtype_name(first_.scalar_type()),
                     " like ", name_, "; got ", dtype_name(t.scalar_type()));
  }

  // Checks rows of `count` nodes of a kind, [count, F] or [count, heads, F], and returns them as [count, heads * F]
  // with contiguous rows. Rows may have any stride: halves of one projection are not copied.
  Tensor rows(const char* what, const Tensor& t, int64_t count, const char* nodes) const {
    device(what, t);
    same_dtype(what, t);
    TORCH_CHECK_VALUE((t.dim() == 2 && t.size(1) >= 1) || (t.dim() == 3 && t.size(1) >= 1 && t.size(2) >= 1), what,
                      " must be [N, F] or [N, heads, F] with F, heads >= 1; got shape ", t.sizes());
    TORCH_CHECK_VALUE(t.size(0) == count, what, " has ", t.size(0), " rows, but the index was made for ", count, " ",
                      nodes, ". Pass a row for each, or make the index anew");
    const Tensor flat = t.dim() == 2 ? t : t.reshape({count, t.size(1) * t.size(2)});
    return flat.size(1) == 1 || flat.stride(1) == 1 ? flat : flat.contiguous();
  }

  // Checks the numbers that go with the rows, [count] or, with heads, [count, heads], of type acc or of the rows'
  // dtype. Returns them contiguous and as acc.
  Tensor numbers(const char* what, const Tensor& t, int64_t count, const char* things, int64_t heads) const {
    TORCH_CHECK_VALUE((t.dim() == 1 && heads == 1) || (t.dim() == 2 && t.size(1) == heads), what, " must have ", heads,
                      heads == 1 ? " number" : " numbers", " for each of the ", things, "; got shape ", t.sizes());
    TORCH_CHECK_VALUE(t.size(0) == count, what, " has ", t.size(0), " entries, but the index has ", count, " ", things,
                      ". Pass one for each, in the order of src and dst");
    return as_acc(what, t);
  }

  Tensor as_acc(const char* what, const Tensor& t) const {
    device(what, t);
    if (t.scalar_type() == acc()) return t.contiguous();
    TORCH_CHECK_TYPE(t.scalar_type() == first_.scalar_type(), what, " must be ", dtype_name(acc()), " (or have ", name_,
                     "'s dtype, ", dtype_name(first_.scalar_type()), "); got ", dtype_name(t.scalar_type()),
                     ". Convert it with .to(", dtype_name(acc()), ")");
    return t.to(acc()).contiguous();
  }

  Tensor int64(const char* what, const Tensor& t, int64_t count, const char* shape) const {
    device(what, t);
    TORCH_CHECK_TYPE(t.scalar_type() == at::kLong, what, " must be torch.int64; got ", dtype_name(t.scalar_type()));
    TORCH_CHECK_VALUE(t.dim() == 1 && t.size(0) == count, what, " must be ", shape, " with ", count,
                      " entries; got shape ", t.sizes());
    return t.contiguous();
  }

 private:
  const char* name_;
  const Tensor& first_;
};

// The shape of `like` with another number of rows.
inline std::vector<int64_t> with_rows(const Tensor& like, int64_t rows) {
  std::vector<int64_t> sizes = like.sizes().vec();
  sizes[0] = rows;
  return sizes;
}

}  // namespace dgl_ptdnet
