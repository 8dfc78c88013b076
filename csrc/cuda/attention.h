// Attention on a GPU: what csrc/cpu does, in the order of a stream. No torch here.
#pragma once

#include "../attention.h"
#include "edge_gate.h"

namespace dgl_ptdnet::cuda {

// Scratch of a call, uninitialised; 0 where none is needed.
size_t attention_workspace_bytes(const AttentionForward& args, const LaunchShape& shape = {});
size_t attention_backward_workspace_bytes(const AttentionBackward& args, const LaunchShape& shape = {});
size_t edge_scores_workspace_bytes(const EdgeScoresForward& args, const LaunchShape& shape = {});
size_t edge_scores_backward_workspace_bytes(const EdgeScoresBackward& args, const LaunchShape& shape = {});

// One launch, and another one for the weights.
void attention(const AttentionForward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape = {});

// Records of destinations; weights of edges; aggregate's backward with them; gradients of edges; their sums by source.
void attention_backward(const AttentionBackward& args, void* workspace, cudaStream_t stream,
                        const LaunchShape& shape = {});

// One launch, and another one where a head has more columns than a warp.
void edge_scores(const EdgeScoresForward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape = {});

// Two launches: by destination, by source.
void edge_scores_backward(const EdgeScoresBackward& args, void* workspace, cudaStream_t stream,
                          const LaunchShape& shape = {});

}  // namespace dgl_ptdnet::cuda
