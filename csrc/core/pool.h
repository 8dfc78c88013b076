// Memory for large results on a CPU. Fresh memory costs a page fault at the first touch of every page, which takes as
// long as the pass that fills it; a training step makes results of the same sizes again and again, so the memory of
// those that are gone is kept for the next ones. No torch here.
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
    static Pool* pool = new Pool;  // never destroyed: results may outlive everything
    return *pool;
  }

  struct Block {
    void* memory;
    size_t bytes;
  };

  // The smallest that is kept and fits, if it is not more than twice too large.
  Block take(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto best = kept_.end();
    for (auto block = kept_.begin(); block != kept_.end(); ++block)
      if (block->bytes >= bytes && block->bytes <= 2 * bytes && (best == kept_.end() || block->bytes < best->bytes))
        best = block;
    const Block block = best == kept_.end() ? Block{map(bytes), bytes} : *best;
    if (best != kept_.end()) kept_.erase(best), kept_bytes_ -= block.bytes;
    used_ += block.bytes, peak_ = std::max(peak_, used_);
    return block;
  }

  void give(const Block& block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    used_ -= block.bytes;
    kept_.push_back(block), kept_bytes_ += block.bytes;
    shrink(std::min(peak_ - used_, most_));  // with what is in use, never more than was in use at one time
  }

  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    shrink(0);
    peak_ = used_;
  }

 private:
  // A range that starts at a large page, so that it can be made of large pages.
  static void* map(size_t bytes) {
    void* whole = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED) throw std::bad_alloc();
    const uintptr_t from = reinterpret_cast<uintptr_t>(whole), begin = (from + page - 1) / page * page;
    if (begin > from) munmap(whole, begin - from);
    if (begin < from + page) munmap(reinterpret_cast<void*>(begin + bytes), from + page - begin);
    madvise(reinterpret_cast<void*>(begin), bytes / page * page, MADV_HUGEPAGE);  // advice: may fail
    return reinterpret_cast<void*>(begin);
  }

  void shrink(size_t most) {  // the oldest go first
    auto block = kept_.begin();
    for (; kept_bytes_ > most; ++block) munmap(block->memory, block->bytes), kept_bytes_ -= block->bytes;
    kept_.erase(kept_.begin(), block);
  }

  std::mutex mutex_;
  std::vector<Block> kept_;
  size_t kept_bytes_ = 0, used_ = 0, peak_ = 0;
  const size_t most_ = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 8;
};

}  // namespace dgl_ptdnet

#endif
