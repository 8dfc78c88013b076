// aggregate, maximum and the degrees on a GPU: what csrc/cpu does, in the order of a stream. No torch here.
#pragma once

#include "../aggregate.h"
#include "edge_gate.h"

namespace dgl_ptdnet::cuda {

// Scratch of a call, uninitialised; 0 where none is needed.
size_t aggregate_workspace_bytes(const AggregateForward& args, const LaunchShape& shape = {});
size_t aggregate_backward_workspace_bytes(const AggregateBackward& args, const LaunchShape& shape = {});
size_t maximum_workspace_bytes(const MaximumForward& args, const LaunchShape& shape = {});
size_t segment_sum_workspace_bytes(const SegmentSum& args, const LaunchShape& shape = {});

// One launch.
void aggregate(const AggregateForward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape = {});
void maximum(const MaximumForward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape = {});

// One launch, and another one where a head's gradient of z comes from more columns than a warp has.
void aggregate_backward(const AggregateBackward& args, void* workspace, cudaStream_t stream,
                        const LaunchShape& shape = {});

// One launch each; `dtype` is f32 or f64: acc itself.
void segment_sum(const SegmentSum& args, Dtype dtype, void* workspace, cudaStream_t stream,
                 const LaunchShape& shape = {});
void segment_spread(const SegmentSum& args, Dtype dtype, cudaStream_t stream, const LaunchShape& shape = {});
void normalize(const Normalize& args, Dtype dtype, cudaStream_t stream, const LaunchShape& shape = {});
void normalize_backward(const NormalizeBackward& args, Dtype dtype, cudaStream_t stream, const LaunchShape& shape = {});

}  // namespace dgl_ptdnet::cuda
