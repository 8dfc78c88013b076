// Makes tensors for results. Large ones on a CPU get their memory from the pool: see pool.h.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "pool.h"

namespace dgl_ptdnet {

#if defined(__linux__)

inline at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) {
  size_t bytes = options.dtype().itemsize();
  for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
  if (!options.device().is_cpu() || bytes < Pool::page) return at::empty(sizes, options);
  bytes = (bytes + Pool::small_page - 1) / Pool::small_page * Pool::small_page;
  Pool::Block block;
  try {
    block = Pool::get().take(bytes);
  } catch (const std::bad_alloc&) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "not enough memory for a result of ", bytes, " bytes");
  }
  return at::from_blob(block.memory, sizes, [block](void*) { Pool::get().give(block); }, options);
}

inline void release_memory() { Pool::get().clear(); }

#else

inline at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) { return at::empty(sizes, options); }

inline void release_memory() {}

#endif

}  // namespace dgl_ptdnet
