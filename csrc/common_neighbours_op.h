// Common neighbours of pairs of nodes, on tensors.
#pragma once

#include <algorithm>

#include "common_neighbours.h"
#include "core/index.h"

namespace dgl_ptdnet {

inline Tensor check_ends(const ArgumentChecks& check, const char* name, const Tensor& ends, int64_t count,
                         int64_t nodes) {
  const Tensor flat = check.int64(name, ends, count, "[pairs]");
  const int64_t* ids = flat.const_data_ptr<int64_t>();
  const int64_t* bad = std::find_if(ids, ids + count, [=](int64_t id) { return id < 0 || id >= nodes; });
  if (bad != ids + count) id_out_of_range(name, *bad, bad - ids, nodes, "Pass nodes of the graph");
  return flat;
}

template <class Device>
Tensor common_neighbours(at::TensorList index, const Tensor& weight, const Tensor& u, const Tensor& v) {
  const ArgumentChecks check("weight", weight);
  const EdgeIndexView view = read_index(index, check);
  TORCH_CHECK_TYPE(weight.scalar_type() == at::kDouble, "weight must be torch.float64; got ",
                   dtype_name(weight.scalar_type()));
  TORCH_CHECK_VALUE(weight.dim() == 1 && weight.size(0) == view.edges, "weight must be [E] with E = ", view.edges,
                    " edges; got shape ", weight.sizes());
  const Tensor w = weight.contiguous();
  const Tensor us = check_ends(check, "u", u, u.numel(), view.num_dst);
  const Tensor vs = check_ends(check, "v", v, u.numel(), view.num_dst);
  const Tensor out = empty(us.sizes(), w.options());
  CommonNeighbours a{
      view.by_dst(), w.const_data_ptr<double>(),         us.const_data_ptr<int64_t>(), vs.const_data_ptr<int64_t>(),
      us.size(0),    static_cast<double*>(out_data(out))};
  Device::run(a, w);
  return out;
}

}  // namespace dgl_ptdnet
