// Draws uniform numbers: each thread works on ids of its own.
#include "../core/philox.h"
#include "flat.cuh"

namespace dgl_ptdnet::cuda {
namespace {

__global__ void __launch_bounds__(kMaxThreads, 3) uniform_kernel(const Uniform args) {
  const uint64_t seed = __ldg(args.noise), offset = __ldg(args.noise + 1);
  for_flat(args.edges,
           [&](int64_t i) { args.out[i] = to_uniform<float>(edge_bits(__ldg(args.edge_ids + i), seed, offset)); });
}

}  // namespace

template <>
size_t workspace_bytes(const Uniform&, const LaunchShape&) {
  return 0;
}

template <>
void launch(const Uniform& args, void*, cudaStream_t stream, const LaunchShape& shape) {
  start_flat(uniform_kernel, args.edges, stream, shape, args);
}

}  // namespace dgl_ptdnet::cuda
