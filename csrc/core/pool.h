// A cache of memory for large results on a CPU. New memory costs a page fault at the first touch of every page;
// together they take as long as the pass that fills the memory. Training steps make results of the same sizes again and
// again, so the memory of freed results is cached for the next ones. No torch here.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

namespace dgl_ptdnet {

class Pool {
 public:
  static constexpr size_t small_page = size_t{4} << 10, page = size_t{2} << 20;

  static Pool& get() {
    static Pool* pool = new Pool;  // never destroyed, because results may be freed at the very end of the process
    return *pool;
  }

  struct Block {
    void* memory;
    size_t bytes;
  };

  // Takes the smallest cached block that is large enough, but at most twice as large as asked for; else a new one.
  Block take(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto best = cached_.end();
    for (auto block = cached_.begin(); block != cached_.end(); ++block)
      if (block->bytes >= bytes && block->bytes <= 2 * bytes && (best == cached_.end() || block->bytes < best->bytes))
        best = block;
    const Block block = best == cached_.end() ? Block{map(bytes), bytes} : *best;
    if (best != cached_.end()) cached_.erase(best), cached_bytes_ -= block.bytes;
    used_ += block.bytes, peak_ = std::max(peak_, used_);
    return block;
  }

  void give(const Block& block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    used_ -= block.bytes;
    cached_.push_back(block), cached_bytes_ += block.bytes;
    shrink(std::min(peak_ - used_, max_bytes_));  // cached and used memory together do not exceed the peak
  }

  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    shrink(0);
    peak_ = used_;
  }

 private:
  // Maps memory that starts at a multiple of the large page size, so that the system can use large pages.
  static void* map(size_t bytes) {
    void* whole = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED) throw std::bad_alloc();
    const uintptr_t from = reinterpret_cast<uintptr_t>(whole), begin = (from + page - 1) / page * page;
    if (begin > from) munmap(whole, begin - from);
    if (begin < from + page) munmap(reinterpret_cast<void*>(begin + bytes), from + page - begin);
    madvise(reinterpret_cast<void*>(begin), bytes / page * page, MADV_HUGEPAGE);  // advice: may fail
    return reinterpret_cast<void*>(begin);
  }

  // Frees the oldest cached blocks until at most max_bytes are cached.
  void shrink(size_t max_bytes) {
    auto block = cached_.begin();
    for (; cached_bytes_ > max_bytes; ++block) munmap(block->memory, block->bytes), cached_bytes_ -= block->bytes;
    cached_.erase(cached_.begin(), block);
  }

  std::mutex mutex_;
  std::vector<Block> cached_;
  size_t cached_bytes_ = 0, used_ = 0, peak_ = 0;
  const size_t max_bytes_ =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 8;
};

}  // namespace dgl_ptdnet

#endif
