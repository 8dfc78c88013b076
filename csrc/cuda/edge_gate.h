// The edge gate on a GPU: what csrc/cpu does, in the order of a stream. No torch here.
#pragma once

#include <cuda_runtime_api.h>

#include "../edge_gate.h"

namespace dgl_ptdnet::cuda {

// Results do not depend on it beyond rounding; tests run several.
struct LaunchShape {
  int threads = 256;       // of a block: a multiple of 32, at most 256
  int edges_per_lane = 8;  // of a backward task
  int max_blocks = 2048;
};

// Scratch of a call, uninitialised; 0 where none is needed.
size_t forward_workspace_bytes(const EdgeGateForward& args, const LaunchShape& shape = {});
size_t backward_workspace_bytes(const EdgeGateBackward& args, const LaunchShape& shape = {});

// One launch.
void edge_gate_forward(const EdgeGateForward& args, void* workspace, cudaStream_t stream,
                       const LaunchShape& shape = {});

// Two launches: by destination, by source.
void edge_gate_backward(const EdgeGateBackward& args, void* workspace, cudaStream_t stream,
                        const LaunchShape& shape = {});

}  // namespace dgl_ptdnet::cuda
