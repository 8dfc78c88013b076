// Partial sums of rows that span several tasks: joined in a fixed order, whatever the order in which tasks finish.
#pragma once

#include <stdexcept>
#include <string>

#include "common.cuh"

namespace dgl_ptdnet::cuda {

// The row that contains `slot`. The search begins at `row`, which must not start after the slot. Its steps grow, so
// that it crosses many empty rows quickly.
__device__ __forceinline__ uint32_t find_row(const EdgeSide& side, uint32_t slot, uint32_t row, uint32_t step) {
  // Counts fit in 31 bits, so the sum of two does not overflow.
  const uint32_t* ptr = reinterpret_cast<const uint32_t*>(side.ptr);
  const uint32_t rows = side.rows;
  for (; row + step < rows && __ldg(ptr + (row + step)) <= slot; step *= 2) row += step;
  for (step /= 2; step > 0; step /= 2)
    if (row + step < rows && __ldg(ptr + (row + step)) <= slot) row += step;
  return row;
}

__device__ __forceinline__ uint32_t find_row(const EdgeSide& side, uint32_t slot) {
  return find_row(side, slot, 0, 1u << (31 - __clz(static_cast<uint32_t>(side.rows))));
}

// Throws if a grid cannot have so many layers. A layer is a head; a head with too many columns for a warp has several.
inline void check_layers(int64_t layers) {
  if (layers > 65535)
    throw std::runtime_error(
        "too many heads or columns for a GPU: heads x (columns / 256, rounded up) must be at most "
        "65,535; got " +
        std::to_string(layers) + ". Split the heads, or use the CPU");
}

// Pieces are copied as words.
using Word = unsigned long long;

// A group of lanes works on a task. blockIdx.y is the layer: some columns of a head.
struct Pieces {
  int lanes;
  int64_t tasks;
  // scratch
  // [layers, tasks, 2, lanes] State: of the row that began before the task, and of the row that continues after it
  char* states;
  int* meetings;  // [layers, tasks], zero before and after

  __device__ __forceinline__ int lane() const { return threadIdx.x % lanes; }

  template <class State>
  __device__ __forceinline__ Word* piece(uint32_t first_task, uint32_t place) const {
    const uint64_t at = (blockIdx.y * static_cast<uint64_t>(tasks) + first_task + place) * 2 + (place == 0);
    return reinterpret_cast<Word*>(states + (at * lanes + lane()) * sizeof(State));
  }

  // Joins the pieces of a row, which tasks first_task .. first_task + count - 1 hold, in a tree: of two neighbours the
  // one that arrives later joins both pieces, in the order of tasks. So the result does not depend on the order of
  // arrival. Returns true in the group that gets the whole row.
  template <class Op, class State>
  __device__ __forceinline__ bool join(State& state, uint32_t task, uint32_t first_task, uint32_t count) const {
    constexpr int kWords = sizeof(State) / sizeof(Word);
    const unsigned group = group_mask(lanes);
    uint32_t place = task - first_task;
    for (uint32_t width = 1; width < count; width *= 2) {
      const uint32_t other = place ^ width;  // place is a multiple of width
      if (other >= count) continue;
      Word words[kWords];
      memcpy(words, &state, sizeof(State));
      Word* mine = piece<State>(first_task, place);
#pragma unroll
      for (int i = 0; i < kWords; ++i) mine[i] = words[i];
      __syncwarp(group);
      int arrived = 0;
      if (lane() == 0) {
        __threadfence();  // after the barrier, so that it covers the writes of all lanes
        // No other pair uses this counter.
        int* meeting = meetings + blockIdx.y * tasks + first_task + (place > other ? place : other);
        arrived = atomicAdd(meeting, 1);
        if (arrived == 1) atomicExch(meeting, 0);
      }
      if (__shfl_sync(group, arrived, 0, lanes) == 0) return false;
      __threadfence();
      const Word* theirs = piece<State>(first_task, other);
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[i] = __ldcg(theirs + i);
      State found;
      memcpy(&found, words, sizeof(State));
      if (place < other) {
        Op::merge(state, found);
      } else {
        Op::merge(found, state);
        state = found;
        place = other;
      }
    }
    return true;
  }
};

}  // namespace dgl_ptdnet::cuda
