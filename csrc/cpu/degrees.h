// Sums of edges' numbers by row of one side.
#pragma once

#include <ATen/core/Tensor.h>

namespace dgl_ptdnet {

// ptr [rows + 1], edge [E], x [E] or [E, heads] -> [rows] or [rows, heads]
at::Tensor segment_sum(const at::Tensor& ptr, const at::Tensor& edge, const at::Tensor& x);

}  // namespace dgl_ptdnet
