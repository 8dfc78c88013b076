// The launchers of message passing for ctypes. A call returns what went wrong, or null.
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "aggregate.h"
#include "attention.h"
#include "emulator.h"

namespace {

using namespace dgl_ptdnet;

std::string error;

// Scratch is of the very size that was asked for, and starts as garbage.
template <class Run>
const char* call(size_t bytes, Run run) {
  try {
    std::unique_ptr<char[]> workspace(bytes ? new char[bytes] : nullptr);
    if (bytes) memset(workspace.get(), 0xff, bytes);
    run(workspace.get());
    return nullptr;
  } catch (const std::runtime_error& problem) {
    error = problem.what();
    return error.c_str();
  }
}

}  // namespace

extern "C" {

void emulated_options(uint64_t seed, int resident) { emulation::options = {seed, resident}; }

#define PTD_CALL(name, Args)                                                              \
  size_t size_of_##name() { return sizeof(Args); }                                        \
  const char* emulated_##name(const Args* args, const cuda::LaunchShape* shape) {         \
    return call(cuda::name##_workspace_bytes(*args, *shape),                              \
                [&](void* workspace) { cuda::name(*args, workspace, nullptr, *shape); }); \
  }

PTD_CALL(aggregate, AggregateForward)
PTD_CALL(aggregate_backward, AggregateBackward)
PTD_CALL(maximum, MaximumForward)
PTD_CALL(attention, AttentionForward)
PTD_CALL(attention_backward, AttentionBackward)
PTD_CALL(edge_scores, EdgeScoresForward)
PTD_CALL(edge_scores_backward, EdgeScoresBackward)

size_t size_of_segment_sum() { return sizeof(SegmentSum); }
const char* emulated_segment_sum(const SegmentSum* args, const cuda::LaunchShape* shape, int dtype) {
  return call(cuda::segment_sum_workspace_bytes(*args, *shape), [&](void* workspace) {
    cuda::segment_sum(*args, static_cast<Dtype>(dtype), workspace, nullptr, *shape);
  });
}

#define PTD_CALL_ACC(name, Args)                                                                   \
  size_t size_of_##name() { return sizeof(Args); }                                                 \
  const char* emulated_##name(const Args* args, const cuda::LaunchShape* shape, int dtype) {       \
    return call(0, [&](void*) { cuda::name(*args, static_cast<Dtype>(dtype), nullptr, *shape); }); \
  }

PTD_CALL_ACC(segment_spread, SegmentSum)
PTD_CALL_ACC(normalize, Normalize)
PTD_CALL_ACC(normalize_backward, NormalizeBackward)
}
