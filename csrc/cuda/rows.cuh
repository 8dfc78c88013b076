// The walk over edges by row, which all sums by row use. A group of lanes works on a task, a range of edges of fixed
// length, so a hub is shared by many groups; blockIdx.y is the layer, some columns of a head. Partial sums of rows that
// span several tasks are joined in a fixed order.
#pragma once

#include "flat.cuh"
#include "pieces.cuh"

namespace dgl_ptdnet::cuda {

struct Walk {
  EdgeSide side;
  int tile;   // edges of a task
  int slabs;  // of a head's columns
  Pieces pieces;

  __device__ __forceinline__ int lanes() const { return pieces.lanes; }
  __device__ __forceinline__ int head() const { return blockIdx.y / slabs; }
  __device__ __forceinline__ int slab() const { return blockIdx.y % slabs; }
  __device__ __forceinline__ int lane() const { return pieces.lane(); }
  __device__ __forceinline__ int column() const { return (slab() * lanes() + lane()) * kColumns; }  // this lane's first
};

// An edge that a lane reads before its row is loaded. The weight is the number that goes with the edge.
template <class A>
struct WeightedEdge {
  int32_t node, edge;
  A weight;
};

// Walks over rows and calls the methods of Op. All of a group's lanes call a method together, except read.
//   Edge read(slot)                  reads the edge of a slot, without its row
//   Edge share(edge, from, group)    returns the edge that lane `from` of the group read
//   gather(edge, Row&)               starts to load the row of the edge's other end
//   enter(row)                       comes before a row's edges
//   start(State&), add(edge, Row, State&), merge(State&, State)
//   leave(State)                     comes after the task's last edge of a row
//   finish(row, State)               comes once for each row
// If kJoins is false, merge and finish are not called.
template <class Op>
__device__ __forceinline__ void walk_rows(const Walk& walk, Op& op) {
  constexpr uint32_t B = Op::kAhead;  // number of rows that are loaded at a time
  const EdgeSide& side = walk.side;
  const uint32_t rows = side.rows, edges = side.edges, tile = walk.tile;
  const int lanes = walk.lanes(), lane = walk.lane();
  const unsigned group = group_mask(lanes);

  const uint32_t items = ((Op::kJoins ? max(rows, edges) : edges) + tile - 1) / tile;
  const uint32_t groups = gridDim.x * (blockDim.x / lanes);
  for (uint32_t item = blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes; item < items; item += groups) {
    const uint32_t begin = item * tile;
    if constexpr (Op::kJoins) {
      // Empty rows belong to no task: each group writes the empty ones among `tile` rows.
      for (uint32_t first = begin; first < begin + tile && first < rows; first += lanes) {
        const uint32_t row = first + lane;
        unsigned empty = __ballot_sync(group, row < rows && __ldg(side.ptr + row) == __ldg(side.ptr + row + 1));
        for (; empty; empty &= empty - 1) {
          typename Op::State none;
          op.start(none);
          op.finish(first + (__ffs(empty) - 1) % lanes, none);
        }
      }
    }
    if (begin >= edges) continue;

    const uint32_t end = min(begin + tile, edges);
    uint32_t row = find_row(side, begin), row_end = __ldg(side.ptr + row + 1);
    typename Op::State state;
    op.start(state);
    op.enter(row);
    for (uint32_t first = begin; first < end; first += lanes) {
      const uint32_t stop = min(first + lanes, end);
      typename Op::Edge mine{};
      if (first + lane < end) mine = op.read(first + lane);
      for (uint32_t at = first; at < stop;) {
        const uint32_t count = min(B, min(stop, row_end) - at);
        typename Op::Edge edge[B];
        typename Op::Row x[B];
#pragma unroll
        for (uint32_t j = 0; j < B; ++j) {
          if (j >= count) break;
          edge[j] = op.share(mine, at - first + j, group);
          op.gather(edge[j], x[j]);
        }
#pragma unroll
        for (uint32_t j = 0; j < B; ++j) {
          if (j >= count) break;
          op.add(edge[j], x[j], state);
        }
        at += count;
        if (at < row_end && at < end) continue;
        op.leave(state);
        if constexpr (Op::kJoins) {
          const uint32_t first_task = __ldg(side.ptr + row) / tile, tasks = (row_end - 1) / tile - first_task + 1;
          if (walk.pieces.join<Op>(state, item, first_task, tasks)) op.finish(row, state);
        }
        if (at == end) break;
        row = find_row(side, at, row + 1, 1);
        row_end = __ldg(side.ptr + row + 1);
        op.start(state);
        op.enter(row);
      }
    }
  }
}

// Calls see(slot, row) for every edge; the threads of a warp work on neighbouring slots.
template <class See>
__device__ __forceinline__ void walk_edges(const EdgeSide& side, int steps, const See& see) {
  const int64_t tile = int64_t{kWarp} * steps, warps = int64_t{gridDim.x} * (blockDim.x / kWarp);
  int64_t first = (int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp) * tile;
  for (; first < side.edges; first += warps * tile) {
    int64_t slot = first + threadIdx.x % kWarp;
    if (slot >= side.edges) continue;
    uint32_t row = find_row(side, slot);
    for (int64_t past = min(first + tile, side.edges); slot < past; slot += kWarp) {
      row = find_row(side, slot, row, 1);
      see(slot, row);
    }
  }
}

// ---- on the host ---------------------------------------------------------------------------------------------------

// The sizes of a walk and of its scratch.
struct WalkPlan {
  Walk walk{};
  int64_t layers, blocks;
  size_t counters, bytes;  // offset of the meetings in the scratch; size of the scratch

  // `lanes` lanes work on a task; state_bytes is 0 if nothing is joined.
  WalkPlan(const EdgeSide& side, int lanes, int64_t heads, int64_t slabs, size_t state_bytes,
           const LaunchShape& shape) {
    walk.side = side, walk.slabs = static_cast<int>(slabs);
    walk.tile = lanes * shape.edges_per_lane;
    walk.pieces.lanes = lanes, walk.pieces.tasks = ceil_div(side.edges, walk.tile);
    layers = heads * slabs;
    const int64_t items = ceil_div(state_bytes && side.rows > side.edges ? side.rows : side.edges, walk.tile);
    blocks = ceil_div(items * lanes, shape.threads);
    if (blocks > shape.max_blocks) blocks = shape.max_blocks;
    counters = layers * walk.pieces.tasks * 2 * lanes * state_bytes;
    bytes = state_bytes ? round_up(counters + layers * walk.pieces.tasks * sizeof(int)) : 0;
  }

  // A group's lanes cover the columns of a head; a head with too many for a warp is divided into slabs.
  WalkPlan(const EdgeSide& side, int64_t heads, int64_t feats, size_t state_bytes, const LaunchShape& shape)
      : WalkPlan(side, lanes_for(feats), heads, ceil_div(feats, lanes_for(feats) * kColumns), state_bytes, shape) {}

  template <class Kernel, class... Args>
  void start(Kernel kernel, void* workspace, cudaStream_t stream, const LaunchShape& shape, const Args&... args) {
    if (blocks == 0) return;
    check_layers(layers);
    walk.pieces.states = static_cast<char*>(workspace);
    walk.pieces.meetings = reinterpret_cast<int*>(walk.pieces.states + counters);
    if (bytes) cudaMemsetAsync(walk.pieces.meetings, 0, bytes - counters, stream);
    kernel<<<dim3(blocks, layers), shape.threads, 0, stream>>>(walk, args...);
  }
};

// out[i] = the sum of x[slab, i] over slabs: the dot products of a head whose columns are divided into slabs.
template <class A>
__global__ void __launch_bounds__(kMaxThreads, 3) sum_slabs_kernel(const A* x, int64_t slabs, int64_t count, A* out) {
  for_flat(count, [&](int64_t i) {
    A sum = 0;
    for (int64_t slab = 0; slab < slabs; ++slab) sum += __ldg(x + slab * count + i);
    out[i] = sum;
  });
}

template <class A>
void sum_slabs(const A* x, int64_t slabs, int64_t count, A* out, cudaStream_t stream, const LaunchShape& shape) {
  start_flat(sum_slabs_kernel<A>, count, stream, shape, x, slabs, count, out);
}

}  // namespace dgl_ptdnet::cuda
