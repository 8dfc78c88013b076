// Backward: sums of rows, by destination and then by source. A group of lanes works on a task, a range of edges of
// fixed length, so a hub is shared by many groups. No row of p or q is gathered.
#include "pieces.cuh"

namespace dgl_ptdnet::cuda {
namespace {

// A lane's columns of a row's sum.
template <class A, int V>
struct alignas(8) Sum {
  A x[V];

  static __device__ __forceinline__ void merge(Sum& sum, const Sum& later) {
#pragma unroll
    for (int i = 0; i < V; ++i) sum.x[i] += later.x[i];
  }
};

// Bytes of a record, which holds dL/dlogit and the mask of a position side by side: the pass over sources then reads
// one sector instead of two. A record never straddles a cache line or, up to 32 bytes, a sector.
int64_t size_of_record(int64_t hidden, int64_t acc_bytes) {
  const int64_t bytes = acc_bytes + mask_bytes(hidden);
  if (bytes > 32) return ceil_div(bytes, 32) * 32;
  int64_t size = acc_bytes;
  while (size < bytes) size *= 2;
  return size;
}

template <class T>
struct Plan {
  EdgeGateBackward args;
  Stretch<Acc<T>> stretch;
  int64_t mask_bytes, record_bytes;
  int tile;  // edges of a task
  bool vector_p, vector_q, vector_grad;
  // scratch; every slab of columns has its own, except the records
  char* records;     // [E, record_bytes], by position
  double* totals;    // [slabs, columns]: the destinations' part of grad_w
  BlockTree blocks;  // [slabs, nodes, columns + 1]
  Pieces pieces;
  int64_t nodes, arrivals;
};

// A number near the mean of a column of p. Any number gives the right result; one near the mean keeps grad_w's digits.
template <class T>
__device__ __forceinline__ Acc<T> column_center(const EdgeGateBackward& args, int64_t column) {
  constexpr int kSamples = 8;
  Acc<T> sum = 0;
  int count = 0;
  for (int i = 0; i < kSamples; ++i) {
    const int64_t row = args.index.num_src * i / kSamples;
    const Acc<T> x = widen(__ldg(static_cast<const T*>(args.p) + row * args.p_stride + column));
    if (isfinite(x)) sum += x / kSamples, ++count;
  }
  return count ? sum * (Acc<T>(kSamples) / count) : Acc<T>(0);  // this order cannot overflow
}

// dL/dlogit of an edge.
template <class A>
__device__ __forceinline__ A grad_logit(const EdgeGateBackward& args, const Stretch<A>& stretch, int64_t e) {
  A grad = 0;
  if (args.grad_z)
    grad =
        times(__ldg(static_cast<const A*>(args.grad_z) + e), stretch.slope(__ldg(static_cast<const A*>(args.z) + e)));
  if (args.grad_penalty) {
    const A slope = stretch.open_slope(__ldg(static_cast<const A*>(args.logit) + e));
    grad += times(__ldg(static_cast<const A*>(args.grad_penalty)), slope);
  }
  return grad;
}

// Sums over the edges of each destination, or of each source. V columns a lane; blockIdx.y is a slab of V * lanes.
template <class T, int V, bool kByDst>
__global__ void __launch_bounds__(kMaxThreads, sizeof(Acc<T>) == 8 ? 2 : 3)
    edge_gate_backward_kernel(const Plan<T> plan) {
  using A = Acc<T>;
  constexpr int kAhead = 8;  // mask bytes that a lane reads before it uses the first
  __shared__ alignas(16) A center[V * kWarp];
  __shared__ alignas(16) A weight[V * kWarp];
  __shared__ double part[V * kWarp + 1];
  // Each thread's sum. In shared memory because it changes only once a row, and registers are scarce.
  __shared__ double grad_w[V][kMaxThreads];

  const EdgeGateBackward& args = plan.args;
  const EdgeIndexView& index = args.index;
  const EdgeSide side = kByDst ? index.by_dst() : index.by_src();
  const uint32_t* ptr = reinterpret_cast<const uint32_t*>(side.ptr);
  const uint32_t rows = side.rows, edges = side.edges, tile = plan.tile;
  const int lanes = plan.pieces.lanes, lane = threadIdx.x % lanes;
  const int columns = V * lanes, hidden = args.hidden;
  const int first_column = blockIdx.y * columns, k = first_column + lane * V, byte = k / kColumns;
  const unsigned group = group_mask(lanes);
  const A negative_slope = static_cast<A>(args.options.negative_slope);
  char* records = plan.records;

  for (int j = threadIdx.x; j < columns; j += blockDim.x) {
    const int column = first_column + j;
    center[j] = column < hidden ? column_center<T>(args, column) : A(0);
    weight[j] = column < hidden ? __ldg(static_cast<const A*>(args.w) + column) : A(0);
  }
#pragma unroll
  for (int i = 0; i < V; ++i) grad_w[i][threadIdx.x] = 0;
  double grad_c[1] = {0};
  __syncthreads();

  const auto finish_row = [&](uint32_t row, Sum<A, V>& sum) {
#pragma unroll
    for (int i = 0; i < V; ++i) sum.x[i] = times(weight[lane * V + i], sum.x[i]);
    T* grad = static_cast<T*>(kByDst ? args.grad_q : args.grad_p) + row * args.hidden;
    store_columns<V>(grad, k, hidden, plan.vector_grad, sum.x);
  };

  // Ends a task's segment of a row. Adds the segment to grad_w here, not where rows are finished: which group finishes
  // a row is left to chance.
  const auto end_row = [&](uint32_t task, uint32_t row, uint32_t row_end, Sum<A, V>& sum) {
    const T* features =
        static_cast<const T*>(kByDst ? args.q : args.p) + row * (kByDst ? args.q_stride : args.p_stride);
    A x[V];
    if (V > 1 && (kByDst ? plan.vector_q : plan.vector_p)) {
      load_columns<V, (V > 1)>(features, k, hidden, x);
    } else {
      load_columns<V, false>(features, k, hidden, x);
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const A away = kByDst ? x[i] + center[lane * V + i] : x[i] - center[lane * V + i];
      grad_w[i][threadIdx.x] += times(away, sum.x[i]);
    }
    const uint32_t first_task = __ldg(ptr + row) / tile, count = (row_end - 1) / tile - first_task + 1;
    if (plan.pieces.template join<Sum<A, V>>(sum, task, first_task, count)) finish_row(row, sum);
  };

  const uint32_t items = (max(rows, edges) + tile - 1) / tile, groups = gridDim.x * (blockDim.x / lanes);
  for (uint32_t item = blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes; item < items; item += groups) {
    // Empty rows belong to no task: each group clears the empty ones among `tile` rows.
    const uint32_t begin = item * tile;
    for (uint32_t first = begin; first < begin + tile && first < rows; first += lanes) {
      const uint32_t row = first + lane;
      unsigned empty = __ballot_sync(group, row < rows && __ldg(ptr + row) == __ldg(ptr + row + 1));
      for (; empty; empty &= empty - 1) {
        Sum<A, V> zero{};
        finish_row(first + (__ffs(empty) - 1) % lanes, zero);
      }
    }

    if (begin >= edges) continue;
    const uint32_t end = min(begin + tile, edges);
    uint32_t row = find_row(side, begin);
    uint32_t row_end = __ldg(ptr + row + 1);
    Sum<A, V> sum{};
    for (uint32_t first = begin; first < end; first += lanes) {
      const uint32_t slot = first + lane;
      const int count = min(static_cast<uint32_t>(lanes), end - first);
      uint32_t position = slot;
      A grad = 0;
      if (slot < end) {
        if constexpr (kByDst) {
          const int64_t e = __ldg(index.in_edge + position);
          grad = grad_logit(args, plan.stretch, e);
          if (blockIdx.y == 0) {
            grad_c[0] += grad;
            if (args.grad_bias) static_cast<A*>(args.grad_bias)[e] = grad;
          }
          if constexpr (V == 1) {  // hidden = 1: there is no mask, so the slope is multiplied in here
            const A h = widen(__ldg(static_cast<const T*>(args.p) + __ldg(index.in_src + position) * args.p_stride)) +
                        widen(__ldg(static_cast<const T*>(args.q) + __ldg(index.in_dst + position) * args.q_stride));
            grad = h > A(0) ? grad : times(grad, negative_slope);
          }
          if (blockIdx.y == 0) *reinterpret_cast<A*>(records + position * plan.record_bytes) = grad;
        } else {
          position = __ldg(index.out_pos + slot);
          grad = __ldg(reinterpret_cast<const A*>(records + position * plan.record_bytes));
        }
      }
      for (int ahead = 0; ahead < count; ahead += kAhead) {
        uint64_t masks = 0;
        if constexpr (V > 1) {
#pragma unroll
          for (int j = 0; j < kAhead; ++j) {
            if (ahead + j >= count) break;
            const uint32_t at = kByDst ? first + ahead + j : __shfl_sync(group, position, ahead + j, lanes);
            if (byte >= plan.mask_bytes) continue;
            char* record = records + at * plan.record_bytes + sizeof(A) + byte;
            const uint8_t bits = kByDst ? __ldg(args.mask + at * plan.mask_bytes + byte)
                                        : __ldg(reinterpret_cast<const uint8_t*>(record));
            masks |= static_cast<uint64_t>(bits) << (8 * j);
            if constexpr (kByDst) *record = static_cast<char>(bits);
          }
        }
#pragma unroll 1
        for (int j = 0; j < kAhead && ahead + j < count; ++j) {
          const A high = __shfl_sync(group, grad, ahead + j, lanes), low = times(high, negative_slope);
#pragma unroll
          for (int i = 0; i < V; ++i) sum.x[i] += V == 1 || masks >> i & 1 ? high : low;
          masks >>= 8;
          const uint32_t next = first + ahead + j + 1;
          if (next < row_end && next < end) continue;
          end_row(item, row, row_end, sum);
          if (next == end) break;
          row = find_row(side, next, row + 1, 1);
          row_end = __ldg(ptr + row + 1);
#pragma unroll
          for (int i = 0; i < V; ++i) sum.x[i] = 0;
        }
      }
    }
  }

  __syncwarp();
  double mine[V];
#pragma unroll
  for (int i = 0; i < V; ++i) mine[i] = grad_w[i][threadIdx.x];
  sum_over_groups(mine, lanes, part);
  sum_over_groups(grad_c, 1, part + columns);
  BlockTree blocks = plan.blocks;
  blocks.values += int64_t{blockIdx.y} * plan.nodes * (columns + 1);
  blocks.arrivals += int64_t{blockIdx.y} * plan.arrivals;
  if (!blocks.sum(part, columns + 1)) return;
  double* totals = plan.totals + int64_t{blockIdx.y} * columns;
  for (int j = threadIdx.x; j <= columns; j += blockDim.x) {
    if (j == columns) {
      if (kByDst && blockIdx.y == 0) *static_cast<A*>(args.grad_c) = static_cast<A>(part[j]);
    } else if (kByDst) {
      totals[j] = part[j];
    } else if (first_column + j < hidden) {
      static_cast<A*>(args.grad_w)[first_column + j] = static_cast<A>(totals[j] + part[j]);
    }
  }
}

int64_t round_to_word(int64_t bytes) { return ceil_div(bytes, sizeof(Word)) * sizeof(Word); }

// The sizes of a call and the layout of its scratch.
struct Layout {
  int v, lanes, tile;
  int64_t columns, slabs, tasks, dst_blocks, src_blocks, nodes, arrivals, record_bytes;
  int64_t records, totals, values, sums, counters, bytes;  // offsets

  Layout(const EdgeGateBackward& args, const LaunchShape& shape) {
    const EdgeIndexView& index = args.index;
    v = args.hidden == 1 ? 1 : kColumns;
    lanes = lanes_for(args.hidden);
    tile = lanes * shape.edges_per_lane;
    columns = v * lanes;
    slabs = ceil_div(args.hidden, columns);
    tasks = ceil_div(index.edges, tile);
    const auto count_blocks = [&](int64_t rows) {
      const int64_t items = ceil_div(rows > index.edges ? rows : index.edges, tile);
      const int64_t blocks = ceil_div(items * lanes, shape.threads);
      return blocks < shape.max_blocks ? blocks : shape.max_blocks;
    };
    dst_blocks = count_blocks(index.num_dst), src_blocks = count_blocks(index.num_src);
    const int64_t blocks = dst_blocks > src_blocks ? dst_blocks : src_blocks;
    nodes = BlockTree::nodes(blocks), arrivals = nodes - blocks;
    const int64_t number = acc_bytes(args.dtype);
    record_bytes = size_of_record(args.hidden, number);
    records = 0;
    totals = ceil_div(records + index.edges * record_bytes, sizeof(double)) * sizeof(double);
    values = totals + slabs * columns * sizeof(double);
    sums = values + slabs * nodes * (columns + 1) * sizeof(double);
    counters = sums + slabs * tasks * 2 * lanes * round_to_word(v * number);
    bytes = counters + slabs * (arrivals + tasks) * sizeof(int);
  }
};

template <class T>
void launch_of(const EdgeGateBackward& args, char* workspace, cudaStream_t stream, const LaunchShape& shape) {
  using A = Acc<T>;
  const Layout at(args, shape);
  check_layers(at.slabs);
  int* counters = reinterpret_cast<int*>(workspace + at.counters);
  cudaMemsetAsync(counters, 0, at.bytes - at.counters, stream);
  const Plan<T> plan{
      args,
      stretch<A>(args.options, args.noisy),
      mask_bytes(args.hidden),
      at.record_bytes,
      at.tile,
      is_vector<T>(args.p, args.p_stride, args.hidden),
      is_vector<T>(args.q, args.q_stride, args.hidden),
      is_vector<T>(args.grad_p, args.hidden, args.hidden) && is_vector<T>(args.grad_q, args.hidden, args.hidden),
      workspace + at.records,
      reinterpret_cast<double*>(workspace + at.totals),
      {reinterpret_cast<double*>(workspace + at.values), counters},
      {at.lanes, at.tasks, workspace + at.sums, counters + at.slabs * at.arrivals},
      at.nodes,
      at.arrivals};
  const auto by_dst = at.v == 1 ? edge_gate_backward_kernel<T, 1, true> : edge_gate_backward_kernel<T, kColumns, true>;
  const auto by_src =
      at.v == 1 ? edge_gate_backward_kernel<T, 1, false> : edge_gate_backward_kernel<T, kColumns, false>;
  by_dst<<<dim3(at.dst_blocks, at.slabs), shape.threads, 0, stream>>>(plan);
  by_src<<<dim3(at.src_blocks, at.slabs), shape.threads, 0, stream>>>(plan);
}

}  // namespace

template <>
size_t workspace_bytes(const EdgeGateBackward& args, const LaunchShape& shape) {
  return args.index.edges == 0 ? 0 : Layout(args, shape).bytes;
}

template <>
void launch(const EdgeGateBackward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.index.edges > 0) return launch_of<T>(args, static_cast<char*>(workspace), stream, shape);
    cudaMemsetAsync(args.grad_p, 0, args.index.num_src * args.hidden * sizeof(T), stream);
    cudaMemsetAsync(args.grad_q, 0, args.index.num_dst * args.hidden * sizeof(T), stream);
    cudaMemsetAsync(args.grad_w, 0, args.hidden * sizeof(Acc<T>), stream);
    cudaMemsetAsync(args.grad_c, 0, sizeof(Acc<T>), stream);
  });
}

}  // namespace dgl_ptdnet::cuda
