// Kernels in which each thread works on numbers of its own.
#pragma once

#include "common.cuh"

namespace dgl_ptdnet::cuda {

// Calls see(i) for this thread's part of 0 .. count - 1.
template <class See>
__device__ __forceinline__ void for_flat(int64_t count, const See& see) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x)
    see(i);
}

template <class Kernel, class... Args>
void start_flat(Kernel kernel, int64_t count, cudaStream_t stream, const LaunchShape& shape, const Args&... args) {
  int64_t blocks = ceil_div(count, shape.threads);
  if (blocks > shape.max_blocks) blocks = shape.max_blocks;
  if (blocks > 0) kernel<<<blocks, shape.threads, 0, stream>>>(args...);
}

}  // namespace dgl_ptdnet::cuda
