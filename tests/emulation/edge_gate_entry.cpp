// The launchers for ctypes. A call returns what went wrong, or null.
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "../gate.h"
#include "edge_gate.h"
#include "emulator.h"

namespace {

using namespace dgl_ptdnet;

std::string error;

// Scratch is of the very size that was asked for, and starts as garbage.
template <class Args, class Size, class Run>
const char* call(const Args& args, const cuda::LaunchShape& shape, Size size, Run run) {
  try {
    const size_t bytes = size(args, shape);
    std::unique_ptr<char[]> workspace(bytes ? new char[bytes] : nullptr);
    if (bytes) memset(workspace.get(), 0xff, bytes);
    run(args, workspace.get(), nullptr, shape);
    return nullptr;
  } catch (const std::runtime_error& problem) {
    error = problem.what();
    return error.c_str();
  }
}

}  // namespace

extern "C" {

void emulated_options(uint64_t seed, int resident) { emulation::options = {seed, resident}; }

size_t emulated_size(int what) {
  return what == 0 ? sizeof(EdgeGateForward) : what == 1 ? sizeof(EdgeGateBackward) : sizeof(cuda::LaunchShape);
}

const char* emulated_forward(const EdgeGateForward* args, const cuda::LaunchShape* shape) {
  return call(*args, *shape, cuda::forward_workspace_bytes, cuda::edge_gate_forward);
}

const char* emulated_backward(const EdgeGateBackward* args, const cuda::LaunchShape* shape) {
  return call(*args, *shape, cuda::backward_workspace_bytes, cuda::edge_gate_backward);
}

void emulated_draws(const int64_t* ids, int64_t count, uint64_t seed, uint64_t offset, uint32_t* bits) {
  for (int64_t i = 0; i < count; ++i) bits[i] = edge_bits(ids[i], seed, offset);
}
}
