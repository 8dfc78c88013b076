// Launchers for ctypes. A call returns what went wrong, or null.
#pragma once

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "emulator.h"
#include "launch.h"

namespace {

std::string error;

// Scratch is of the very size that was asked for, and starts as garbage.
template <class Args>
const char* call(const Args& args, const dgl_ptdnet::cuda::LaunchShape& shape) {
  try {
    const size_t bytes = dgl_ptdnet::cuda::workspace_bytes(args, shape);
    std::unique_ptr<char[]> workspace(bytes ? new char[bytes] : nullptr);
    if (bytes) memset(workspace.get(), 0xff, bytes);
    dgl_ptdnet::cuda::launch(args, workspace.get(), nullptr, shape);
    return nullptr;
  } catch (const std::runtime_error& problem) {
    error = problem.what();
    return error.c_str();
  }
}

}  // namespace

// A launcher by the name of its arguments, and their size.
#define PTD_LAUNCHER(Args)                                                                              \
  size_t size_of_##Args() { return sizeof(dgl_ptdnet::Args); }                                          \
  const char* launch_##Args(const dgl_ptdnet::Args* args, const dgl_ptdnet::cuda::LaunchShape* shape) { \
    return call(*args, *shape);                                                                         \
  }

extern "C" {
void emulated_options(uint64_t seed, int resident) { emulation::options = {seed, resident}; }
size_t size_of_LaunchShape() { return sizeof(dgl_ptdnet::cuda::LaunchShape); }
}
