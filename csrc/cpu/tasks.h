// How the work on a side of the graph is cut.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>

namespace dgl_ptdnet {
namespace {  // compiled for several instruction sets: no two files may share a copy

// Work is cut at multiples of this many edges, whatever the number of threads, so that results do not depend on it
// and a hub is shared by all threads.
constexpr int64_t row_task_edges = 1024;

[[maybe_unused]] inline int64_t count_row_tasks(int64_t edges) { return (edges + row_task_edges - 1) / row_task_edges; }

// What a task has of a row: its edges [begin, end), and whether the row began in an earlier task or goes on in a later.
struct Segment {
  int64_t row, begin, end;
  bool began, goes_on;

  bool whole() const { return !began && !goes_on; }
  // Of the two pieces that a task may leave, [tasks, 2]: the one of a row that began earlier, then the other.
  int64_t piece(int64_t task) const { return 2 * task + !began; }
};

// The last row that starts at or before `edge`, which lies in it.
inline int64_t row_of(const int32_t* ptr, int64_t rows, int64_t edge) {
  int64_t low = 0, high = rows;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (ptr[middle] <= edge ? low : high) = middle;
  }
  return low;
}

// For tasks [begin, end): visit(task, segment) for every row, empty ones too.
template <class Visit>
inline __attribute__((always_inline)) void for_segments(const int32_t* ptr, int64_t rows, int64_t edges, int64_t begin,
                                                        int64_t end, const Visit& visit) {
  int64_t row = begin == 0 ? 0 : row_of(ptr, rows, begin * row_task_edges);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t first = task * row_task_edges, past = first + row_task_edges < edges ? first + row_task_edges : edges;
    for (; row < rows; ++row) {
      const int64_t row_first = ptr[row], row_past = ptr[row + 1];
      if (row_first == past && row_past > past) break;
      const bool began = row_first<first, goes_on = row_past> past;
      visit(task, Segment{row, began ? first : row_first, goes_on ? past : row_past, began, goes_on});
      if (goes_on) break;
    }
  }
}

// For those of tasks [begin, end) in which a row begins that later tasks go on with: join(row, task, last task).
template <class Join>
inline __attribute__((always_inline)) void for_shared_rows(const int32_t* ptr, int64_t rows, int64_t edges,
                                                           int64_t begin, int64_t end, const Join& join) {
  for (int64_t task = begin; task < end; ++task) {
    const int64_t past = (task + 1) * row_task_edges;
    if (past >= edges) break;
    const int64_t row = row_of(ptr, rows, past - 1);
    if (ptr[row + 1] <= past || ptr[row] < task * row_task_edges) continue;
    join(row, task, (ptr[row + 1] - 1) / row_task_edges);
  }
}

// Uninitialised memory of a call, freed with it.
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
