// Rows that several tasks share: what each task has of a row is joined in a fixed order, whoever is late.
#pragma once

#include <stdexcept>
#include <string>

#include "common.cuh"

namespace dgl_ptdnet::cuda {

// The row that a slot lies in, the last one that does not start after it. `row` is known not to start after it; steps
// grow, so that runs of rows without edges are crossed quickly.
__device__ __forceinline__ uint32_t find_row(const EdgeSide& side, uint32_t slot, uint32_t row, uint32_t step) {
  // Counts fit in 31 bits, so sums of two of them do not overflow.
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

// A grid has at most so many layers: heads, each of up to a warp's columns, or parts of a wider one.
inline void check_layers(int64_t layers) {
  if (layers > 65535)
    throw std::runtime_error(
        "too many heads or columns for a GPU: heads x (columns / 256, rounded up) must be at most "
        "65,535; got " +
        std::to_string(layers) + ". Split the heads, or use the CPU");
}

// Pieces are copied by words.
using Word = unsigned long long;

// A group of lanes has a task. blockIdx.y is a layer, some columns of a head.
struct Pieces {
  int lanes;
  int64_t tasks;
  // scratch
  char* states;   // [layers, tasks, 2, lanes] State: of the row that began before the task, that goes on after it
  int* meetings;  // [layers, tasks], zero before and after

  __device__ __forceinline__ int lane() const { return threadIdx.x % lanes; }

  template <class State>
  __device__ __forceinline__ Word* piece(uint32_t first_task, uint32_t place) const {
    const uint64_t at = (blockIdx.y * static_cast<uint64_t>(tasks) + first_task + place) * 2 + (place == 0);
    return reinterpret_cast<Word*>(states + (at * lanes + lane()) * sizeof(State));
  }

  // Joins what tasks first_task .. first_task + count have of a row in a tree of neighbours: the later of two joins
  // both, the earlier task's first, so the result does not depend on who is late. True in the group that ends up with
  // all of it.
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
        __threadfence();  // after the barrier: for what all lanes wrote
        // No other pair has this one.
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
