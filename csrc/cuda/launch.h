// Runs the operators' kernels on a GPU, in the order of a stream. No torch here.
#pragma once

#include <cuda_runtime_api.h>

#include "../aggregate.h"
#include "../attention.h"
#include "../degrees.h"
#include "../edge_gate.h"
#include "../uniform.h"

namespace dgl_ptdnet::cuda {

// Results depend on it only by rounding; tests run several.
struct LaunchShape {
  int threads = 256;       // of a block: a multiple of 32, at most 256
  int edges_per_lane = 8;  // of a backward task
  int max_blocks = 2048;
};

// For the arguments of each operator: the bytes of uninitialised scratch that it needs, and its launches.
template <class Args>
size_t workspace_bytes(const Args& args, const LaunchShape& shape = {});
template <class Args>
void launch(const Args& args, void* workspace, cudaStream_t stream, const LaunchShape& shape = {});

#define PTD_DECLARE_LAUNCH(Args)                                      \
  template <>                                                         \
  size_t workspace_bytes(const Args& args, const LaunchShape& shape); \
  template <>                                                         \
  void launch(const Args& args, void* workspace, cudaStream_t stream, const LaunchShape& shape)

PTD_DECLARE_LAUNCH(Uniform);             // one launch
PTD_DECLARE_LAUNCH(EdgeGateForward);     // one launch
PTD_DECLARE_LAUNCH(EdgeGateBackward);    // two: by destination, by source
PTD_DECLARE_LAUNCH(AggregateForward);    // one
PTD_DECLARE_LAUNCH(AggregateBackward);   // one; two if grad_z is needed and a head has more columns than a warp
PTD_DECLARE_LAUNCH(MaximumForward);      // one
PTD_DECLARE_LAUNCH(SegmentSum);          // one
PTD_DECLARE_LAUNCH(SegmentSpread);       // one
PTD_DECLARE_LAUNCH(Normalize);           // one
PTD_DECLARE_LAUNCH(NormalizeBackward);   // one
PTD_DECLARE_LAUNCH(AttentionForward);    // one; two with the weights
PTD_DECLARE_LAUNCH(AttentionBackward);   // records of destinations; weights of edges; aggregate's; gradients of edges;
                                         // their sums by source
PTD_DECLARE_LAUNCH(EdgeScoresForward);   // one; two if a head has more columns than a warp
PTD_DECLARE_LAUNCH(EdgeScoresBackward);  // two: by destination, by source

#undef PTD_DECLARE_LAUNCH

}  // namespace dgl_ptdnet::cuda
