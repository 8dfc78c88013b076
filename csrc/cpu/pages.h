// Large pages for large results: fewer page faults when they are written, fewer TLB misses when they are scattered
// into.
#pragma once

#include <ATen/core/Tensor.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace dgl_ptdnet {

inline void advise_large_pages(const at::Tensor& t) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t page = uintptr_t{2} << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(t.const_data_ptr()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(t.const_data_ptr()) + t.nbytes()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // advice: may fail
#else
  (void)t;
#endif
}

}  // namespace dgl_ptdnet
