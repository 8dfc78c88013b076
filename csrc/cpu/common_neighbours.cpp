// Runs common neighbours on a CPU: divides the pairs among threads.
#include <algorithm>
#include <atomic>

#include "common_neighbours_impl.h"
#include "device.h"

namespace dgl_ptdnet {
namespace {

constexpr int64_t pairs_a_task = 512;

// Calls run(task) for each task; a thread that is done takes the next, because some tasks are much longer.
template <class Run>
void for_tasks(int64_t tasks, const Run& run) {
  std::atomic<int64_t> next{0};
  Threads()(std::min<int64_t>(tasks, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    for (int64_t task = next++; task < tasks; task = next++) run(task);
  });
}

}  // namespace

void Cpu::run(const CommonNeighbours& a, const Tensor&) {
  std::atomic<bool> ascending{true};
  Threads()(a.side.rows, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      if (!std::is_sorted(a.side.node + a.side.ptr[row], a.side.node + a.side.ptr[row + 1])) ascending = false;
  });
  TORCH_CHECK_VALUE(ascending,
                    "the sources of each destination's edges must be in ascending order. Sort the edges by source ",
                    "before you make the index");
  for_tasks((a.pairs + pairs_a_task - 1) / pairs_a_task, [&](int64_t task) {
    common_neighbours(a, task * pairs_a_task, std::min(a.pairs, (task + 1) * pairs_a_task));
  });
}

}  // namespace dgl_ptdnet
