// Degrees and gates' normalisation: sums edges' numbers by row, and gives rows' numbers to edges.
#include "rows.cuh"

namespace dgl_ptdnet::cuda {
namespace {

constexpr int kSteps = 8;  // edges of a thread, in kernels where each thread works on edges of its own

// A thread sums V heads of a task's edges, in double, because a degree may be the sum of millions of small gates.
template <class A, int V>
struct SegmentRows {
  struct Edge {
    int32_t edge;
  };
  struct Row {
    A x[V];
  };
  struct alignas(8) State {
    double sum[V];
  };
  static constexpr bool kJoins = true;
  static constexpr int kAhead = 1;  // a task's lane has one edge at a time

  const SegmentSum& args;
  const Walk& walk;
  const int head = walk.slab() * V, heads = args.heads;

  __device__ SegmentRows(const SegmentSum& args, const Walk& walk) : args(args), walk(walk) {}

  __device__ __forceinline__ Edge read(uint32_t slot) const { return {__ldg(walk.side.edge + slot)}; }
  __device__ __forceinline__ Edge share(const Edge& edge, int, unsigned) const { return edge; }
  __device__ __forceinline__ void gather(const Edge& edge, Row& row) const {
    load_columns<V, false>(static_cast<const A*>(args.x) + edge.edge * args.heads, head, heads, row.x);
  }
  __device__ __forceinline__ void enter(uint32_t) const {}
  __device__ __forceinline__ void start(State& state) const {
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] = 0;
  }
  __device__ __forceinline__ void add(const Edge&, const Row& row, State& state) const {
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] += row.x[i];
  }
  __device__ __forceinline__ void leave(const State&) const {}
  static __device__ __forceinline__ void merge(State& state, const State& later) {
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] += later.sum[i];
  }
  __device__ __forceinline__ void finish(uint32_t row, const State& state) const {
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (head + i < heads) static_cast<A*>(args.out)[row * args.heads + head + i] = static_cast<A>(state.sum[i]);
  }
};

template <class A, int V>
__global__ void __launch_bounds__(kMaxThreads, 2) segment_sum_kernel(const Walk walk, const SegmentSum args) {
  SegmentRows<A, V> op(args, walk);
  walk_rows(walk, op);
}

template <class A>
__global__ void __launch_bounds__(kMaxThreads, 3) segment_spread_kernel(const SegmentSpread args) {
  walk_edges(args.side, kSteps, [&](int64_t slot, uint32_t row) {
    const int64_t e = __ldg(args.side.edge + slot);
    for (int64_t h = 0; h < args.heads; ++h)
      static_cast<A*>(args.out)[e * args.heads + h] = __ldg(static_cast<const A*>(args.x) + row * args.heads + h);
  });
}

template <class A>
struct Degree {
  A scale;  // max(degree, floor)^-exponent; 0 where the base is 0
  A slope;  // exponent / degree; 0 where the degree is 0 or below the floor

  __device__ __forceinline__ Degree(const void* degrees, int64_t at, double exponent, A floor)
      : scale(A(1)), slope(A(0)) {
    if (!degrees) return;
    const A degree = __ldg(static_cast<const A*>(degrees) + at), base = degree < floor ? floor : degree;
    scale = exponent == 0.5 ? A(1) / sqrt(base) : exponent == 1 ? A(1) / base : pow(base, static_cast<A>(-exponent));
    if (base == A(0)) scale = A(0);
    if (degree != A(0) && !(degree < floor)) slope = static_cast<A>(exponent) / degree;
  }
};

// The forward is the backward without the sums.
template <class A, bool kBackward>
__global__ void __launch_bounds__(kMaxThreads, 3) normalize_kernel(const NormalizeBackward args) {
  const A floor = static_cast<A>(args.options.floor);
  walk_edges(args.in, kSteps, [&](int64_t slot, uint32_t row) {
    const int64_t e = __ldg(args.in.edge + slot), node = __ldg(args.in.node + slot);
    for (int64_t h = 0; h < args.heads; ++h) {
      const int64_t at = e * args.heads + h, u = node * args.heads + h, v = row * args.heads + h;
      const Degree<A> out(args.out_deg, u, args.options.left, floor), in(args.in_deg, v, args.options.right, floor);
      A x = __ldg(static_cast<const A*>(kBackward ? args.grad : args.z) + at) * out.scale * in.scale;
      if constexpr (kBackward) {
        if (args.out_deg) x -= out.slope * __ldg(static_cast<const A*>(args.out_sum) + u);
        if (args.in_deg) x -= in.slope * __ldg(static_cast<const A*>(args.in_sum) + v);
      }
      static_cast<A*>(kBackward ? args.grad_z : args.w)[at] = x;
    }
  });
}

int columns_of(const SegmentSum& args) { return args.heads == 1 ? 1 : kColumns; }

WalkPlan plan_of(const SegmentSum& args, const LaunchShape& shape) {
  const int v = columns_of(args);
  return {args.side, 1, 1, ceil_div(args.heads, v), v * sizeof(double), shape};
}

// Calls f with a value of the type acc.
template <class F>
void dispatch_acc(Dtype dtype, F f) {
  dtype == Dtype::f64 ? f(double{}) : f(float{});
}

}  // namespace

template <>
size_t workspace_bytes(const SegmentSum& args, const LaunchShape& shape) {
  return plan_of(args, shape).bytes;
}

template <>
void launch(const SegmentSum& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  dispatch_acc(args.acc, [&](auto zero) {
    using A = decltype(zero);
    const auto kernel = columns_of(args) == 1 ? segment_sum_kernel<A, 1> : segment_sum_kernel<A, kColumns>;
    plan_of(args, shape).start(kernel, workspace, stream, shape, args);
  });
}

template <>
size_t workspace_bytes(const SegmentSpread&, const LaunchShape&) {
  return 0;
}

template <>
void launch(const SegmentSpread& args, void*, cudaStream_t stream, const LaunchShape& shape) {
  const int64_t threads = ceil_div(args.side.edges, kWarp * kSteps) * kWarp;
  dispatch_acc(args.acc,
               [&](auto zero) { start_flat(segment_spread_kernel<decltype(zero)>, threads, stream, shape, args); });
}

template <>
size_t workspace_bytes(const Normalize&, const LaunchShape&) {
  return 0;
}

template <>
void launch(const Normalize& args, void*, cudaStream_t stream, const LaunchShape& shape) {
  NormalizeBackward all{};
  static_cast<Normalize&>(all) = args;
  const int64_t threads = ceil_div(args.in.edges, kWarp * kSteps) * kWarp;
  dispatch_acc(args.acc,
               [&](auto zero) { start_flat(normalize_kernel<decltype(zero), false>, threads, stream, shape, all); });
}

template <>
size_t workspace_bytes(const NormalizeBackward&, const LaunchShape&) {
  return 0;
}

template <>
void launch(const NormalizeBackward& args, void*, cudaStream_t stream, const LaunchShape& shape) {
  const int64_t threads = ceil_div(args.in.edges, kWarp * kSteps) * kWarp;
  dispatch_acc(args.acc,
               [&](auto zero) { start_flat(normalize_kernel<decltype(zero), true>, threads, stream, shape, args); });
}

}  // namespace dgl_ptdnet::cuda
