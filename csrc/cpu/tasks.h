// Divides the work on a side of the graph into tasks.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>

#include "../core/types.h"

namespace dgl_ptdnet {
namespace {  // so that files compiled for different instruction sets share no copy

// A task is a fixed number of edges, so that results do not depend on the number of threads and all threads share the
// edges of a hub. Most kernels' tasks have this many.
constexpr int64_t row_task_edges = 1024;

template <int64_t size = row_task_edges>
inline int64_t count_tasks(int64_t edges) {
  return (edges + size - 1) / size;
}

// The first edge after a task.
template <int64_t size = row_task_edges>
inline int64_t task_end(int64_t task, int64_t edges) {
  return (task + 1) * size < edges ? (task + 1) * size : edges;
}

// A task's segment of a row: the edges [begin, end), and whether the row began in an earlier task or continues in a
// later one.
struct Segment {
  int64_t row, begin, end;
  bool began, continues;

  bool whole() const { return !began && !continues; }
  // Index of the segment's partial sum in [tasks, 2]: 0 if the row began earlier, 1 if it continues later.
  int64_t piece(int64_t task) const { return 2 * task + !began; }
};

// The row that contains `edge`.
inline int64_t row_of(const EdgeSide& side, int64_t edge) {
  int64_t low = 0, high = side.rows;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (side.ptr[middle] <= edge ? low : high) = middle;
  }
  return low;
}

// Calls visit(task, segment) for every row's segments in tasks [begin, end), also for empty rows.
template <int64_t size = row_task_edges, class Visit>
inline __attribute__((always_inline)) void for_segments(const EdgeSide& side, int64_t begin, int64_t end,
                                                        const Visit& visit) {
  int64_t row = begin == 0 ? 0 : row_of(side, begin * size);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t first = task * size, past = task_end<size>(task, side.edges);
    for (; row < side.rows; ++row) {
      const int64_t row_first = side.ptr[row], row_past = side.ptr[row + 1];
      if (row_first == past && row_past > past) break;
      const bool began = row_first<first, continues = row_past> past;
      visit(task, Segment{row, began ? first : row_first, continues ? past : row_past, began, continues});
      if (continues) break;
    }
  }
}

// Calls join(row, first task, last task) for each row that begins in one of tasks [begin, end) and continues in later
// tasks.
template <int64_t size = row_task_edges, class Join>
inline __attribute__((always_inline)) void for_shared_rows(const EdgeSide& side, int64_t begin, int64_t end,
                                                           const Join& join) {
  for (int64_t task = begin; task < end; ++task) {
    const int64_t past = (task + 1) * size;
    if (past >= side.edges) break;
    const int64_t row = row_of(side, past - 1), row_past = side.ptr[row + 1];
    if (row_past <= past || side.ptr[row] < task * size) continue;
    join(row, task, (row_past - 1) / size);
  }
}

// sum [size]: the sum of a row's pieces, which are in [tasks, 2, size]. The row begins in `task` and ends in `last`.
template <class A>
inline void add_pieces(const A* pieces, int64_t size, int64_t task, int64_t last, A* sum) {
  std::memcpy(sum, pieces + (2 * task + 1) * size, size * sizeof(A));
  for (int64_t later = task + 1; later <= last; ++later)
    for (int64_t k = 0; k < size; ++k) sum[k] += pieces[2 * later * size + k];
}

// Uninitialised memory, freed at the end of its scope.
template <class T>
struct Buffer {
  T* data;
  explicit Buffer(int64_t count)
      : data(static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T) + 64, std::align_val_t{64}))) {}
  ~Buffer() { ::operator delete(data, std::align_val_t{64}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

}  // namespace
}  // namespace dgl_ptdnet
