// aggregate and maximum: weighted sums of gathered rows, by destination and, backward, by source.
#include "rows.cuh"

namespace dgl_ptdnet::cuda {
namespace {

constexpr int V = kColumns;

template <class T>
struct SumArgs {
  const T* x;    // the rows that are gathered
  const T* own;  // the rows of this side, for dots. Only read with kDot
  int64_t x_stride, own_stride, heads, feats;
  const Acc<T>* z;     // [E, heads], or null: ones
  const int32_t* arg;  // [others, feats]: the only edge that counts for a column. Only read with kArg
  T* out;              // [rows, heads, feats], or null
  Acc<T>* dots;        // [slabs, E, heads], or null
  bool vector_x, vector_own, vector_out;
};

template <class T, bool kDot, bool kArg>
struct SumRows {
  using A = Acc<T>;
  using Edge = WeightedEdge<A>;
  struct Row {
    A x[V];
  };
  struct alignas(8) State {
    A sum[V];
  };
  static constexpr bool kJoins = true;
  static constexpr int kAhead = sizeof(A) == 8 ? (kDot ? 1 : 2) : kArg ? 2 : 4;

  const SumArgs<T>& args;
  const Walk& walk;
  const int head = walk.head(), k = walk.column(), feats = args.feats;
  A own[V];

  __device__ SumRows(const SumArgs<T>& args, const Walk& walk) : args(args), walk(walk) {}

  __device__ __forceinline__ void load(const T* row, bool vector, A (&x)[V]) const {
    vector ? load_columns<V, true>(row, k, feats, x) : load_columns<V, false>(row, k, feats, x);
  }

  __device__ __forceinline__ Edge read(uint32_t slot) const {
    const int32_t e = __ldg(walk.side.edge + slot);
    return {__ldg(walk.side.node + slot), e, args.z ? __ldg(args.z + e * args.heads + head) : A(1)};
  }
  __device__ __forceinline__ Edge share(const Edge& edge, int from, unsigned group) const {
    return {__shfl_sync(group, edge.node, from, walk.lanes()),
            kDot || kArg ? __shfl_sync(group, edge.edge, from, walk.lanes()) : 0,
            __shfl_sync(group, edge.weight, from, walk.lanes())};
  }
  __device__ __forceinline__ void gather(const Edge& edge, Row& row) const {
    load(args.x + edge.node * args.x_stride + int64_t{head} * feats, args.vector_x, row.x);
    if constexpr (kArg) {
      const int32_t* arg = args.arg + int64_t{edge.node} * feats;
#pragma unroll
      for (int i = 0; i < V; ++i)
        if (k + i < feats && __ldg(arg + k + i) != edge.edge) row.x[i] = 0;
    }
  }
  __device__ __forceinline__ void enter(uint32_t row) {
    if constexpr (kDot) load(args.own + row * args.own_stride + int64_t{head} * feats, args.vector_own, own);
  }
  __device__ __forceinline__ void start(State& state) const {
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] = 0;
  }
  __device__ __forceinline__ void add(const Edge& edge, const Row& row, State& state) const {
    A dot = 0;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      state.sum[i] = fma(edge.weight, row.x[i], state.sum[i]);
      if constexpr (kDot) dot = kArg ? dot + times(own[i], row.x[i]) : fma(own[i], row.x[i], dot);
    }
    if constexpr (kDot) {
      const unsigned group = group_mask(walk.lanes());
      for (int step = 1; step < walk.lanes(); step *= 2) dot += __shfl_xor_sync(group, dot, step);
      if (walk.lane() == 0 && args.dots)
        args.dots[(walk.slab() * walk.side.edges + edge.edge) * args.heads + head] = dot;
    }
  }
  __device__ __forceinline__ void leave(const State&) const {}
  static __device__ __forceinline__ void merge(State& state, const State& later) {
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] += later.sum[i];
  }
  __device__ __forceinline__ void finish(uint32_t row, const State& state) const {
    if (args.out) store_columns<V>(args.out + (row * args.heads + head) * feats, k, feats, args.vector_out, state.sum);
  }
};

template <class T, bool kDot, bool kArg>
__global__ void __launch_bounds__(kMaxThreads, 2) aggregate_kernel(const Walk walk, const SumArgs<T> args) {
  SumRows<T, kDot, kArg> op(args, walk);
  walk_rows(walk, op);
}

template <class T>
struct MaximumArgs {
  const T* h;
  int64_t h_stride;
  int feats;
  const Acc<T>* z;  // or null: ones
  T* out;
  int32_t* arg;
  bool vector_h, vector_out;
};

template <class T>
struct MaximumRows {
  using A = Acc<T>;
  using Edge = WeightedEdge<A>;
  struct Row {
    A x[V];
  };
  struct alignas(8) State {
    A best[V];
    int32_t arg[V];  // -1 for none
  };
  static constexpr bool kJoins = true;
  static constexpr int kAhead = sizeof(A) == 8 ? 1 : 2;

  const MaximumArgs<T>& args;
  const Walk& walk;
  const int k = walk.column();

  __device__ MaximumRows(const MaximumArgs<T>& args, const Walk& walk) : args(args), walk(walk) {}

  __device__ __forceinline__ Edge read(uint32_t slot) const {
    const int32_t e = __ldg(walk.side.edge + slot);
    return {__ldg(walk.side.node + slot), e, args.z ? __ldg(args.z + e) : A(1)};
  }
  __device__ __forceinline__ Edge share(const Edge& edge, int from, unsigned group) const {
    return {__shfl_sync(group, edge.node, from, walk.lanes()), __shfl_sync(group, edge.edge, from, walk.lanes()),
            __shfl_sync(group, edge.weight, from, walk.lanes())};
  }
  __device__ __forceinline__ void gather(const Edge& edge, Row& row) const {
    if (edge.weight <= A(0)) return;
    const T* h = args.h + edge.node * args.h_stride;
    args.vector_h ? load_columns<V, true>(h, k, args.feats, row.x) : load_columns<V, false>(h, k, args.feats, row.x);
  }
  __device__ __forceinline__ void enter(uint32_t) const {}
  __device__ __forceinline__ void start(State& state) const {
#pragma unroll
    for (int i = 0; i < V; ++i) state.best[i] = 0, state.arg[i] = -1;
  }
  // Of equal numbers the first is kept; NaN is kept, too.
  static __device__ __forceinline__ void take(State& state, int i, A x, int32_t edge) {
    if (state.arg[i] >= 0 && (x <= state.best[i] || state.best[i] != state.best[i])) return;
    state.best[i] = x, state.arg[i] = edge;
  }
  __device__ __forceinline__ void add(const Edge& edge, const Row& row, State& state) const {
    if (edge.weight <= A(0)) return;
#pragma unroll
    for (int i = 0; i < V; ++i) take(state, i, edge.weight * row.x[i], edge.edge);
  }
  __device__ __forceinline__ void leave(const State&) const {}
  static __device__ __forceinline__ void merge(State& state, const State& later) {
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (later.arg[i] >= 0) take(state, i, later.best[i], later.arg[i]);
  }
  __device__ __forceinline__ void finish(uint32_t row, const State& state) const {
    store_columns<V>(args.out + int64_t{row} * args.feats, k, args.feats, args.vector_out, state.best);
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (k + i < args.feats) args.arg[int64_t{row} * args.feats + k + i] = state.arg[i];
  }
};

template <class T>
__global__ void __launch_bounds__(kMaxThreads, 2) maximum_kernel(const Walk walk, const MaximumArgs<T> args) {
  MaximumRows<T> op(args, walk);
  walk_rows(walk, op);
}

// Bytes of V sums; of V maxima and the edges that they came from.
size_t sum_bytes(Dtype dtype) { return V * acc_bytes(dtype); }
size_t maximum_bytes(Dtype dtype) { return V * (acc_bytes(dtype) + sizeof(int32_t)); }

size_t dot_bytes(const AggregateBackward& args, const WalkPlan& plan) {
  const int slabs = plan.walk.slabs;
  return args.grad_z && slabs > 1 ? round_up(slabs * args.side.edges * args.heads * acc_bytes(args.dtype)) : 0;
}

WalkPlan plan_of(const AggregateForward& args, const LaunchShape& shape) {
  return {args.side, args.heads, args.feats, sum_bytes(args.dtype), shape};
}
WalkPlan plan_of(const AggregateBackward& args, const LaunchShape& shape) {
  return {args.side, args.heads, args.feats, sum_bytes(args.dtype), shape};
}
WalkPlan plan_of(const MaximumForward& args, const LaunchShape& shape) {
  return {args.side, 1, args.feats, maximum_bytes(args.dtype), shape};
}

}  // namespace

template <>
size_t workspace_bytes(const AggregateForward& args, const LaunchShape& shape) {
  return plan_of(args, shape).bytes;
}

template <>
size_t workspace_bytes(const AggregateBackward& args, const LaunchShape& shape) {
  const WalkPlan plan = plan_of(args, shape);
  return dot_bytes(args, plan) + plan.bytes;
}

template <>
size_t workspace_bytes(const MaximumForward& args, const LaunchShape& shape) {
  return plan_of(args, shape).bytes;
}

template <>
void launch(const AggregateForward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const SumArgs<T> sum{static_cast<const T*>(args.h),
                         nullptr,
                         args.h_stride,
                         0,
                         args.heads,
                         args.feats,
                         static_cast<const Acc<T>*>(args.z),
                         nullptr,
                         static_cast<T*>(args.out),
                         nullptr,
                         is_vector<T>(args.h, args.h_stride, args.feats),
                         false,
                         is_vector<T>(args.out, args.feats, args.feats)};
    plan_of(args, shape).start(aggregate_kernel<T, false, false>, workspace, stream, shape, sum);
  });
}

template <>
void launch(const AggregateBackward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Acc<T>;
    WalkPlan plan = plan_of(args, shape);
    const size_t apart = dot_bytes(args, plan);
    A* dots = apart ? static_cast<A*>(workspace) : static_cast<A*>(args.grad_z);
    const SumArgs<T> sum{static_cast<const T*>(args.grad),
                         static_cast<const T*>(args.h),
                         args.grad_stride,
                         args.h_stride,
                         args.heads,
                         args.feats,
                         static_cast<const A*>(args.z),
                         args.arg,
                         static_cast<T*>(args.grad_h),
                         dots,
                         is_vector<T>(args.grad, args.grad_stride, args.feats),
                         is_vector<T>(args.h, args.h_stride, args.feats),
                         is_vector<T>(args.grad_h, args.feats, args.feats)};
    const auto kernel = args.arg      ? aggregate_kernel<T, true, true>
                        : args.grad_z ? aggregate_kernel<T, true, false>
                                      : aggregate_kernel<T, false, false>;
    plan.start(kernel, static_cast<char*>(workspace) + apart, stream, shape, sum);
    if (apart)
      sum_slabs(dots, plan.walk.slabs, args.side.edges * args.heads, static_cast<A*>(args.grad_z), stream, shape);
  });
}

template <>
void launch(const MaximumForward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const MaximumArgs<T> max{static_cast<const T*>(args.h),
                             args.h_stride,
                             static_cast<int>(args.feats),
                             static_cast<const Acc<T>*>(args.z),
                             static_cast<T*>(args.out),
                             args.arg,
                             is_vector<T>(args.h, args.h_stride, args.feats),
                             is_vector<T>(args.out, args.feats, args.feats)};
    plan_of(args, shape).start(maximum_kernel<T>, workspace, stream, shape, max);
  });
}

}  // namespace dgl_ptdnet::cuda
