// Uniform numbers on tensors, for both devices.
#pragma once

#include "core/checks.h"
#include "uniform.h"

namespace dgl_ptdnet {

template <class Device>
Tensor uniform(const Tensor& noise, const Tensor& edge_ids) {
  const ArgumentChecks check("noise", noise);
  const Tensor seed = check.int64("noise", noise, 2, "int64[2], (seed, offset),");
  const Tensor ids = check.int64("edge_ids", edge_ids, edge_ids.numel(), "[E]");
  const Tensor out = empty({ids.size(0)}, noise.options().dtype(at::kFloat));
  const Uniform a{seed.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>(), ids.size(0),
                  static_cast<float*>(out_data(out))};
  if (a.edges > 0) Device::run(a, noise);
  return out;
}

}  // namespace dgl_ptdnet
