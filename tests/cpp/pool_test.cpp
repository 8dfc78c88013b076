// The memory that is kept for results: blocks that are given back are taken again, what is kept has a limit, and
// threads may take and give at the same time.
#include "core/pool.h"

#include <cstring>

#include "testing.h"

using namespace dgl_ptdnet;

int main() {
  Pool pool;
  const Pool::Block first = pool.take(3 * Pool::page);
  require("a block does not start at a large page", reinterpret_cast<uintptr_t>(first.memory) % Pool::page == 0);
  std::memset(first.memory, 1, first.bytes);
  pool.give(first);
  const Pool::Block again = pool.take(2 * Pool::page);
  require("memory that fits is not taken again", again.memory == first.memory && again.bytes == first.bytes);
  const Pool::Block other = pool.take(Pool::page);
  require("two results share memory", other.memory != again.memory);
  pool.give(again), pool.give(other);
  const Pool::Block small = pool.take(Pool::small_page);
  require("memory more than twice too large is taken", small.memory != first.memory && small.memory != other.memory);
  pool.give(small);
  pool.clear();
  OnThreads{4}(64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Pool::Block block = pool.take((1 + i % 3) * Pool::page);
      std::memset(block.memory, static_cast<int>(i), block.bytes);
      require("somebody wrote to a block in use",
              static_cast<char*>(block.memory)[block.bytes - 1] == static_cast<char>(i));
      pool.give(block);
    }
  });
  pool.clear();
  return finish();
}
