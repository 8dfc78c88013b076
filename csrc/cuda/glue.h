// What the operators' glue shares.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace dgl_ptdnet::cuda {

// Scratch of the current stream. Memory that the caching allocator hands out again later is reused in stream order.
inline at::Tensor scratch(const at::Tensor& like, size_t bytes) {
  return at::empty({static_cast<int64_t>(bytes)}, like.options().dtype(at::kByte));
}

// [rows, heads] sums of x [E, heads], by row of one side of the index.
at::Tensor segment_sum(const at::Tensor& ptr, const at::Tensor& edge, const at::Tensor& x);

}  // namespace dgl_ptdnet::cuda
