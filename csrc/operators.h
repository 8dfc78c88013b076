// Registers every operator for a device, under the same names for both devices.
#pragma once

#include <torch/library.h>

#include "aggregate_op.h"
#include "attention_op.h"
#include "degrees_op.h"
#include "edge_gate_op.h"
#include "uniform_op.h"

namespace dgl_ptdnet {

// Device::order_edges makes the index. Device::run(arguments, rows) runs an operator's kernels; scratch tensors get the
// options of `rows`, a tensor of the call.
template <class Device>
void register_operators(torch::Library& m) {
  m.impl("edge_index", edge_index<Device>);
  m.impl("uniform", uniform<Device>);
  m.impl("edge_gate", edge_gate<Device>);
  m.impl("edge_gate_backward", edge_gate_backward<Device>);
  m.impl("aggregate", aggregate<Device>);
  m.impl("aggregate_backward", aggregate_backward<Device>);
  m.impl("edge_dot", edge_dot<Device>);
  m.impl("maximum", maximum<Device>);
  m.impl("maximum_backward", maximum_backward<Device>);
  m.impl("segment_sum", segment_sum<Device>);
  m.impl("segment_spread", segment_spread<Device>);
  m.impl("normalize", normalize<Device>);
  m.impl("normalize_backward", normalize_backward<Device>);
  m.impl("attention", attention<Device>);
  m.impl("attention_backward", attention_backward<Device>);
  m.impl("edge_scores", edge_scores<Device>);
  m.impl("edge_scores_backward", edge_scores_backward<Device>);
}

}  // namespace dgl_ptdnet
