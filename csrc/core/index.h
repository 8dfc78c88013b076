// Makes, checks and reads a graph's index, which operators take as a list of eight tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>

#include <tuple>

#include "checks.h"
#include "types.h"

namespace dgl_ptdnet {

// Maximum number of edges or nodes: positions and ids are stored in 32 bits.
constexpr int64_t max_count = (int64_t{1} << 31) - 2;

constexpr size_t index_tensors = 8;  // in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos, out_dst, out_edge
using IndexTensors = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

// The result of a check of an index tensor's values, stored with the tensor. Kernels use the values as addresses, so
// they must be checked, but once is enough: the tensor's version shows whether it was changed in place since.
struct KnownValues : c10::BackendMeta {
  bool starts;  // true: the values ascend from 0 to `bound`; false: they are in 0 .. bound - 1
  int64_t bound;
  uint32_t version;

  KnownValues(bool starts_, int64_t bound_, uint32_t version_) : starts(starts_), bound(bound_), version(version_) {}
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return {};  // a copy counts its versions anew
  }
};

inline void set_known(const Tensor& t, bool starts, int64_t bound) {
  if (t.is_inference()) return;  // inference tensors have no versions
  const auto version = static_cast<uint32_t>(t._version());
  t.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<KnownValues>(starts, bound, version));
}

[[noreturn]] inline void bad_index() {
  TORCH_CHECK_VALUE(false, "the index's tensors are not those of a graph. Pass EdgeIndex.tensors unchanged");
}

// Checks the values of a tensor that edge_index did not make: slow.
inline void check_values(const Tensor& t, bool starts, int64_t bound) {
  if (t.numel() > 0) {
    const auto [low, high] = t.aminmax();
    if (low.item<int64_t>() < 0 || high.item<int64_t>() >= bound + starts) bad_index();
  }
  if (starts && (t[0].item<int64_t>() != 0 || t[-1].item<int64_t>() != bound || t.diff().lt(0).any().item<bool>()))
    bad_index();
  set_known(t, starts, bound);
}

inline void ensure_values(const Tensor& t, bool starts, int64_t bound) {
  const auto* known = dynamic_cast<const KnownValues*>(t.unsafeGetTensorImpl()->get_backend_meta());
  if (!known) return check_values(t, starts, bound);
  TORCH_CHECK_VALUE(known->version == static_cast<uint32_t>(t._version()),
                    "the index's tensors were changed in place. Make a new EdgeIndex");
  if (known->starts != starts || (starts ? known->bound != bound : known->bound > bound)) bad_index();
}

// Checks the index and returns its pointers. It must be on the device of `check`'s first tensor.
inline EdgeIndexView read_index(at::TensorList index, const ArgumentChecks& check) {
  TORCH_CHECK_VALUE(index.size() == index_tensors, "index must be the ", index_tensors,
                    " tensors of EdgeIndex.tensors; got ", index.size());
  const int32_t* data[index_tensors];
  for (size_t i = 0; i < index_tensors; ++i) {
    const Tensor& t = index[i];
    TORCH_CHECK_VALUE(t.device() == check.first().device(), "the index is on ", t.device(), ", but ", check.name(),
                      " is on ", check.first().device(), ". Make it from src and dst on that device");
    TORCH_CHECK_TYPE(t.scalar_type() == at::kInt && t.dim() == 1 && t.is_contiguous(),
                     "the index must hold contiguous int32 tensors, as EdgeIndex.tensors does");
    data[i] = t.const_data_ptr<int32_t>();
  }
  const int64_t edges = index[1].size(0), num_dst = index[0].size(0) - 1, num_src = index[4].size(0) - 1;
  for (const size_t i : {2, 3, 5, 6, 7})
    TORCH_CHECK_VALUE(index[i].size(0) == edges, "the index's tensors disagree on the number of edges");
  if (num_src < 0 || num_dst < 0) bad_index();
  const int64_t bounds[index_tensors] = {edges, num_src, num_dst, edges, edges, edges, num_dst, edges};
  for (size_t i = 0; i < index_tensors; ++i) ensure_values(index[i], i % 4 == 0, bounds[i]);
  return {data[0], data[1], data[2], data[3], data[4], data[5], data[6], data[7], edges, num_src, num_dst};
}

inline void check_edge_list(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst) {
  TORCH_CHECK_VALUE(src.dim() == 1 && dst.dim() == 1 && src.size(0) == dst.size(0),
                    "src and dst must be 1-D and of one length, with one entry for each edge; got shapes ", src.sizes(),
                    " and ", dst.sizes());
  TORCH_CHECK_TYPE(
      (src.scalar_type() == at::kInt || src.scalar_type() == at::kLong) && src.scalar_type() == dst.scalar_type(),
      "src and dst must both be int32 or both int64; got ", dtype_name(src.scalar_type()), " and ",
      dtype_name(dst.scalar_type()), ". Convert them with .long()");
  TORCH_CHECK_VALUE(src.device() == dst.device(), "src and dst must be on one device; got ", src.device(), " and ",
                    dst.device());
  TORCH_CHECK_VALUE(num_src >= 0 && num_dst >= 0, "num_src and num_dst must not be negative; got ", num_src, " and ",
                    num_dst);
  TORCH_CHECK_VALUE(src.size(0) <= max_count && num_src <= max_count && num_dst <= max_count,
                    "a graph may have at most ", max_count, " edges and nodes of a kind; got ", src.size(0), " edges, ",
                    num_src, " sources, ", num_dst, " destinations. Split the graph");
}

// name[place] = id is not in 0 .. count - 1.
[[noreturn]] inline void id_out_of_range(
    const char* name, int64_t id, int64_t place, int64_t count,
    const char* remedy = "Pass features for every node, or correct the edge list") {
  TORCH_CHECK_INDEX(false, name, "[", place, "] = ", id, " is out of range: there are ", count,
                    " such nodes, so ids go from 0 to ", count - 1, ". ", remedy);
}

template <class Device>
IndexTensors edge_index(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst) {
  check_edge_list(src, dst, num_src, num_dst);
  const c10::InferenceMode no_inference(false);  // a later call may need gradients
  const IndexTensors made = Device::order_edges(src, dst, num_src, num_dst);
  const int64_t edges = src.size(0);
  set_known(std::get<0>(made), true, edges), set_known(std::get<4>(made), true, edges);
  set_known(std::get<1>(made), false, num_src);
  set_known(std::get<2>(made), false, num_dst), set_known(std::get<6>(made), false, num_dst);
  for (const Tensor& t : {std::get<3>(made), std::get<5>(made), std::get<7>(made)}) set_known(t, false, edges);
  return made;
}

}  // namespace dgl_ptdnet
