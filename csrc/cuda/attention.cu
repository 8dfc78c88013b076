// Attention. The forward makes scores, softmax and sums in one walk over destinations. It keeps a running maximum,
// which can be joined across tasks, so a hub is shared by many groups. The backward is aggregate's backward, between
// two passes over edges.

#include "rows.cuh"

namespace dgl_ptdnet::cuda {
namespace {

constexpr int V = kColumns;
constexpr int kSteps = 8;  // edges of a thread, in kernels where each thread works on edges of its own

template <class A>
__device__ __forceinline__ A leaky_relu(A x, A negative_slope) {
  return x > A(0) ? x : x * negative_slope;
}

template <class A>
__device__ __forceinline__ A gate_of(const AttentionInputs& args, int64_t e, int64_t head) {
  if (!args.z) return A(1);
  return __ldg(static_cast<const A*>(args.z) + (args.z_heads == 1 ? e : e * args.z_heads + head));
}

// ---- forward -------------------------------------------------------------------------------------------------------

template <class T>
struct AttentionRows {
  using A = Acc<T>;
  struct Edge {
    int32_t node;
    A score;  // el of the source, or the score itself
    A gate;
  };
  struct Row {
    A x[V];
  };
  struct alignas(8) State {
    A sum[V];
    A max;    // of the kept scores so far
    A total;  // of z exp(a - max)
  };
  static constexpr bool kJoins = true;
  static constexpr int kAhead = sizeof(A) == 8 ? 1 : 2;

  const AttentionForward& args;
  const Walk& walk;
  const bool vector_h, vector_out;
  const int head = walk.head(), k = walk.column(), heads = args.heads, feats = args.feats;
  A er = 0;

  __device__ AttentionRows(const AttentionForward& args, const Walk& walk, bool vector_h, bool vector_out)
      : args(args), walk(walk), vector_h(vector_h), vector_out(vector_out) {}

  static __device__ __forceinline__ A none() { return -static_cast<A>(INFINITY); }

  __device__ __forceinline__ Edge read(uint32_t slot) const {
    const int32_t node = __ldg(walk.side.node + slot);
    const int64_t e = __ldg(walk.side.edge + slot);
    const A* score = static_cast<const A*>(args.scores ? args.scores : args.el);
    return {node, __ldg(score + (args.scores ? e : node) * args.heads + head), gate_of<A>(args, e, head)};
  }
  __device__ __forceinline__ Edge share(const Edge& edge, int from, unsigned group) const {
    return {__shfl_sync(group, edge.node, from, walk.lanes()), __shfl_sync(group, edge.score, from, walk.lanes()),
            __shfl_sync(group, edge.gate, from, walk.lanes())};
  }
  __device__ __forceinline__ void gather(const Edge& edge, Row& row) const {
    if (edge.gate == A(0)) return;
    const T* h = static_cast<const T*>(args.h) + edge.node * args.h_stride + int64_t{head} * feats;
    vector_h ? load_columns<V, true>(h, k, feats, row.x) : load_columns<V, false>(h, k, feats, row.x);
  }
  __device__ __forceinline__ void enter(uint32_t row) {
    if (args.er) er = __ldg(static_cast<const A*>(args.er) + row * args.heads + head);
  }
  __device__ __forceinline__ void start(State& state) const {
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] = 0;
    state.max = none(), state.total = 0;
  }
  // exp(x - max), also where max is none() because no edge is kept
  static __device__ __forceinline__ A relative(A x, A max) { return exp(x - (max == none() ? A(0) : max)); }

  __device__ __forceinline__ void add(const Edge& edge, const Row& row, State& state) const {
    if (edge.gate == A(0)) return;
    const A score = args.scores ? edge.score : leaky_relu(edge.score + er, static_cast<A>(args.negative_slope));
    if (score > state.max) {
      const A shrink = relative(state.max, score);
#pragma unroll
      for (int i = 0; i < V; ++i) state.sum[i] *= shrink;
      state.total *= shrink;
      state.max = score;
    }
    const A weight = edge.gate * relative(score, state.max);
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] = fma(weight, row.x[i], state.sum[i]);
    state.total += weight;
  }
  __device__ __forceinline__ void leave(const State&) const {}
  static __device__ __forceinline__ void merge(State& state, const State& later) {
    const A max = later.max > state.max ? later.max : state.max;
    const A mine = relative(state.max, max), theirs = relative(later.max, max);  // 0 where no edge is kept
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] = state.sum[i] * mine + later.sum[i] * theirs;
    state.total = state.total * mine + later.total * theirs;
    state.max = max;
  }
  __device__ __forceinline__ void finish(uint32_t row, const State& state) const {
    const A inverse = state.total == A(0) ? A(0) : A(1) / state.total;
    A out[V];
#pragma unroll
    for (int i = 0; i < V; ++i) out[i] = state.sum[i] * inverse;
    const int64_t at = row * args.heads + head;
    store_columns<V>(static_cast<T*>(args.result) + at * feats, k, feats, vector_out, out);
    if (k > 0) return;
    static_cast<A*>(args.max)[at] = state.max == none() ? A(0) : state.max;
    static_cast<A*>(args.sum)[at] = state.total;
  }
};

template <class T>
__global__ void __launch_bounds__(kMaxThreads, sizeof(Acc<T>) == 8 ? 1 : 2)
    attention_kernel(const Walk walk, const AttentionForward args, bool vector_h, bool vector_out) {
  AttentionRows<T> op(args, walk, vector_h, vector_out);
  walk_rows(walk, op);
}

template <class A>
__global__ void __launch_bounds__(kMaxThreads, 3) attention_weights_kernel(const AttentionForward args) {
  const A negative_slope = static_cast<A>(args.negative_slope);
  walk_edges(args.in, kSteps, [&](int64_t slot, uint32_t row) {
    const int64_t e = __ldg(args.in.edge + slot), u = __ldg(args.in.node + slot), heads = args.heads;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t v = row * heads + h;
      const A sum = __ldg(static_cast<const A*>(args.sum) + v), gate = gate_of<A>(args, e, h);
      A weight = 0;
      if (gate != A(0) && sum != A(0)) {
        const A score = args.scores ? __ldg(static_cast<const A*>(args.scores) + e * heads + h)
                                    : leaky_relu(__ldg(static_cast<const A*>(args.el) + u * heads + h) +
                                                     __ldg(static_cast<const A*>(args.er) + v),
                                                 negative_slope);
        weight = gate * exp(score - __ldg(static_cast<const A*>(args.max) + v)) / sum;
      }
      static_cast<A*>(args.weights)[e * heads + h] = weight;
    }
  });
}

// ---- backward ------------------------------------------------------------------------------------------------------

// A group of lanes makes the record of one head of a destination.
template <class T>
__global__ void __launch_bounds__(kMaxThreads, 2)
    attention_records_kernel(const AttentionBackward args, int lanes, bool vector) {
  using A = Acc<T>;
  const int lane = threadIdx.x % lanes, feats = args.feats;
  const unsigned group = group_mask(lanes);
  const int64_t heads = args.heads, count = args.in.rows * heads, groups = int64_t{gridDim.x} * (blockDim.x / lanes);
  for (int64_t i = int64_t{blockIdx.x} * (blockDim.x / lanes) + threadIdx.x / lanes; i < count; i += groups) {
    const int64_t row = i / heads, head = i % heads;
    const T* result = static_cast<const T*>(args.result) + i * feats;
    const T* grad = static_cast<const T*>(args.grad) + row * args.grad_stride + head * feats;
    A dot = 0;
    for (int k = lane * V; k < feats; k += lanes * V) {
      A x[V], g[V];
      if (vector) {
        load_columns<V, true>(result, k, feats, x), load_columns<V, true>(grad, k, feats, g);
      } else {
        load_columns<V, false>(result, k, feats, x), load_columns<V, false>(grad, k, feats, g);
      }
#pragma unroll
      for (int j = 0; j < V; ++j) dot = fma(x[j], g[j], dot);
    }
    for (int step = 1; step < lanes; step *= 2) dot += __shfl_xor_sync(group, dot, step);
    if (lane > 0) continue;
    A* record = static_cast<A*>(args.records) + row * 4 * heads + head;
    const A sum = __ldg(static_cast<const A*>(args.sum) + i);
    record[0] = args.er ? __ldg(static_cast<const A*>(args.er) + i) : A(0);
    record[heads] = __ldg(static_cast<const A*>(args.max) + i);
    record[2 * heads] = sum == A(0) ? A(0) : A(1) / sum;
    record[3 * heads] = dot + (args.shift ? __ldg(static_cast<const A*>(args.shift) + i) : A(0));
  }
}

// For each edge, in the order by source. Called twice. First, without `dots`, it writes alpha into grad_scores; then,
// with `dots`, the gradients.
template <class A>
__global__ void __launch_bounds__(kMaxThreads, 3) attention_edges_kernel(const AttentionBackward args, const A* dots) {
  const A negative_slope = static_cast<A>(args.negative_slope);
  walk_edges(args.out, kSteps, [&](int64_t slot, uint32_t row) {
    const int64_t e = __ldg(args.out.edge + slot), v = __ldg(args.out.node + slot), heads = args.heads;
    const A* records = static_cast<const A*>(args.records) + v * 4 * heads;
    A total = 0;
    for (int64_t h = 0; h < heads; ++h) {
      const A* record = records + h;
      const A x = args.scores ? __ldg(static_cast<const A*>(args.scores) + e * heads + h)
                              : __ldg(static_cast<const A*>(args.el) + row * heads + h) + __ldg(record);
      const A score = args.scores ? x : leaky_relu(x, negative_slope), inverse = __ldg(record + 2 * heads);
      A beta = inverse == A(0) ? A(0) : exp(score - __ldg(record + heads)) * inverse;
      beta = beta > A(max_beta) ? A(max_beta) : beta;
      const A gate = gate_of<A>(args, e, h), alpha = gate == A(0) ? A(0) : gate * beta;
      A* grad = static_cast<A*>(args.grad_scores) + e * heads + h;
      if (!dots) {
        *grad = alpha;
        continue;
      }
      const A extra = args.grad_weights ? __ldg(static_cast<const A*>(args.grad_weights) + e * heads + h) : A(0);
      const A t = __ldg(dots + e * heads + h) + extra - __ldg(record + 3 * heads);
      *grad = alpha * t * (args.scores || x > A(0) ? A(1) : negative_slope);
      total += beta * t;
      if (args.grad_z && args.z_heads != 1) static_cast<A*>(args.grad_z)[e * heads + h] = beta * t;
    }
    if (dots && args.grad_z && args.z_heads == 1) static_cast<A*>(args.grad_z)[e] = total;
  });
}

// ---- GATv2's scores ------------------------------------------------------------------------------------------------

template <class T>
struct ScoreArgs {
  EdgeScoresInputs in;
  const T* other;  // the rows that are gathered
  const T* own;    // the rows of this side
  int64_t other_stride, own_stride;
  bool vector;
  Acc<T>* scores;  // [slabs, E, heads]
  // backward
  const Acc<T>* grad;  // [E, heads]
  T* grad_own;         // [rows, heads, feats]
  Acc<T>* grad_w;      // [heads, feats], with kWeight
  bool vector_grad;
  BlockTree blocks;  // [layers, nodes, lanes * V]
  int64_t nodes, arrivals;
};

// In the backward, the walk over destinations also makes w's gradient (kWeight). It is summed over rows as double, by
// each thread in shared memory: the sum changes only once a row, and registers are scarce.
template <class T, bool kBackward, bool kWeight>
struct ScoreRows {
  using A = Acc<T>;
  using Edge = WeightedEdge<A>;
  struct Row {
    A x[V];
  };
  struct alignas(8) State {
    A sum[V];
  };
  static constexpr bool kJoins = kBackward;
  static constexpr int kAhead = sizeof(A) == 8 ? 1 : 2;

  const ScoreArgs<T>& args;
  const Walk& walk;
  double (*const grad_w)[kMaxThreads];  // [V]
  const int head = walk.head(), k = walk.column(), heads = args.in.heads, feats = args.in.feats;
  const A negative_slope = static_cast<A>(args.in.negative_slope);
  A own[V], w[V], product[V];

  __device__ ScoreRows(const ScoreArgs<T>& args, const Walk& walk, double (*grad_w)[kMaxThreads])
      : args(args), walk(walk), grad_w(grad_w) {
    load_columns<V, false>(static_cast<const A*>(args.in.w) + head * feats, k, feats, w);
  }

  __device__ __forceinline__ void load(const T* rows, int64_t row, int64_t stride, A (&x)[V]) const {
    const T* from = rows + row * stride + int64_t{head} * feats;
    args.vector ? load_columns<V, true>(from, k, feats, x) : load_columns<V, false>(from, k, feats, x);
  }
  __device__ __forceinline__ Edge read(uint32_t slot) const {
    const int32_t e = __ldg(walk.side.edge + slot);
    return {__ldg(walk.side.node + slot), e, kBackward ? __ldg(args.grad + int64_t{e} * heads + head) : A(0)};
  }
  __device__ __forceinline__ Edge share(const Edge& edge, int from, unsigned group) const {
    return {__shfl_sync(group, edge.node, from, walk.lanes()),
            kBackward ? 0 : __shfl_sync(group, edge.edge, from, walk.lanes()),
            kBackward ? __shfl_sync(group, edge.weight, from, walk.lanes()) : A(0)};
  }
  __device__ __forceinline__ void gather(const Edge& edge, Row& row) const {
    load(args.other, edge.node, args.other_stride, row.x);
  }
  __device__ __forceinline__ void enter(uint32_t row) { load(args.own, row, args.own_stride, own); }
  __device__ __forceinline__ void start(State& state) {
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] = 0, product[i] = 0;
  }
  __device__ __forceinline__ void add(const Edge& edge, const Row& row, State& state) {
    A score = 0;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const A x = row.x[i] + own[i];
      if constexpr (kBackward) state.sum[i] += x > A(0) ? edge.weight : times(negative_slope, edge.weight);
      if constexpr (kWeight) product[i] += times(leaky_relu(x, negative_slope), edge.weight);
      if constexpr (!kBackward) score = fma(w[i], leaky_relu(x, negative_slope), score);
    }
    if constexpr (!kBackward) {
      const unsigned group = group_mask(walk.lanes());
      for (int step = 1; step < walk.lanes(); step *= 2) score += __shfl_xor_sync(group, score, step);
      if (walk.lane() == 0) args.scores[(walk.slab() * walk.side.edges + edge.edge) * heads + head] = score;
    }
  }
  // Adds the segment to grad_w here, not where rows are finished: which group finishes a row is left to chance.
  __device__ __forceinline__ void leave(const State&) {
    if constexpr (kWeight) {
#pragma unroll
      for (int i = 0; i < V; ++i) grad_w[i][threadIdx.x] += product[i];
    }
  }
  static __device__ __forceinline__ void merge(State& state, const State& later) {
#pragma unroll
    for (int i = 0; i < V; ++i) state.sum[i] += later.sum[i];
  }
  __device__ __forceinline__ void finish(uint32_t row, const State& state) const {
    A grad[V];
#pragma unroll
    for (int i = 0; i < V; ++i) grad[i] = times(w[i], state.sum[i]);
    store_columns<V>(args.grad_own + (int64_t{row} * heads + head) * feats, k, feats, args.vector_grad, grad);
  }
};

template <class T>
__global__ void __launch_bounds__(kMaxThreads, 2) edge_scores_kernel(const Walk walk, const ScoreArgs<T> args) {
  ScoreRows<T, false, false> op(args, walk, nullptr);
  walk_rows(walk, op);
}

template <class T, bool kWeight>
__global__ void __launch_bounds__(kMaxThreads, sizeof(Acc<T>) == 8 ? 1 : 2)
    edge_scores_backward_kernel(const Walk walk, const ScoreArgs<T> args) {
  __shared__ double grad_w[V][kMaxThreads];
  __shared__ double part[V * kWarp];
  if constexpr (kWeight) {
#pragma unroll
    for (int i = 0; i < V; ++i) grad_w[i][threadIdx.x] = 0;
  }
  ScoreRows<T, true, kWeight> op(args, walk, grad_w);
  walk_rows(walk, op);
  if constexpr (kWeight) {
    __syncwarp();
    double mine[V];
#pragma unroll
    for (int i = 0; i < V; ++i) mine[i] = grad_w[i][threadIdx.x];
    sum_over_groups(mine, walk.lanes(), part);
    const int columns = V * walk.lanes(), feats = args.in.feats, first = walk.slab() * columns;
    BlockTree blocks = args.blocks;
    blocks.values += blockIdx.y * args.nodes * columns;
    blocks.arrivals += blockIdx.y * args.arrivals;
    if (!blocks.sum(part, columns)) return;
    for (int j = threadIdx.x; j < columns && first + j < feats; j += blockDim.x)
      args.grad_w[int64_t{walk.head()} * feats + first + j] = static_cast<Acc<T>>(part[j]);
  }
}

// ---- on the host ---------------------------------------------------------------------------------------------------

WalkPlan plan_of(const AttentionForward& args, const LaunchShape& shape) {
  const size_t state = (V + 2) * acc_bytes(args.dtype);
  return {args.in, args.heads, args.feats, state, shape};
}

// The arguments of aggregate's backward that makes grad_h and the dot products in t: z is alpha, grad_z is dots
AggregateBackward sums_of(const AttentionBackward& args, void* dots) {
  return {args.out,      args.dtype,       args.heads,       args.feats, args.h,      args.grad,
          args.h_stride, args.grad_stride, args.grad_scores, nullptr,    args.grad_h, dots};
}

SegmentSum el_sum_of(const AttentionBackward& args) {
  const Dtype acc = args.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  return {args.out, acc, args.heads, args.grad_scores, args.grad_el};
}

size_t dot_bytes(const AttentionBackward& args) {
  return round_up(args.out.edges * args.heads * acc_bytes(args.dtype));
}

WalkPlan plan_of(const EdgeScoresForward& args, const LaunchShape& shape) {
  return {args.in, args.heads, args.feats, 0, shape};
}

size_t score_bytes(const EdgeScoresForward& args, const WalkPlan& plan) {
  const int slabs = plan.walk.slabs;
  return slabs > 1 ? slabs * args.in.edges * args.heads * acc_bytes(args.dtype) : 0;
}

template <class T>
ScoreArgs<T> score_args(const EdgeScoresInputs& args, bool by_dst) {
  ScoreArgs<T> a{};
  const T *p = static_cast<const T*>(args.p), *q = static_cast<const T*>(args.q);
  a.in = args;
  a.other = by_dst ? p : q, a.own = by_dst ? q : p;
  a.other_stride = by_dst ? args.p_stride : args.q_stride, a.own_stride = by_dst ? args.q_stride : args.p_stride;
  a.vector = is_vector<T>(p, args.p_stride, args.feats) && is_vector<T>(q, args.q_stride, args.feats);
  return a;
}

// The two walks run one after the other and use the same scratch.
struct ScorePlans {
  WalkPlan by_dst, by_src;
  int64_t columns, nodes, arrivals;
  size_t values, counters, pieces, bytes;  // offsets

  ScorePlans(const EdgeScoresBackward& args, const LaunchShape& shape)
      : by_dst(args.in, args.heads, args.feats, V * acc_bytes(args.dtype), shape),
        by_src(args.out, args.heads, args.feats, V * acc_bytes(args.dtype), shape) {
    columns = V * by_dst.walk.pieces.lanes;
    nodes = BlockTree::nodes(by_dst.blocks), arrivals = nodes - by_dst.blocks;
    values = 0;
    counters = by_dst.layers * nodes * columns * sizeof(double);
    pieces = round_up(counters + by_dst.layers * arrivals * sizeof(int));
    bytes = pieces + (by_dst.bytes > by_src.bytes ? by_dst.bytes : by_src.bytes);
  }
};

}  // namespace

template <>
size_t workspace_bytes(const AttentionForward& args, const LaunchShape& shape) {
  return plan_of(args, shape).bytes;
}

template <>
void launch(const AttentionForward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    plan_of(args, shape)
        .start(attention_kernel<T>, workspace, stream, shape, args, is_vector<T>(args.h, args.h_stride, args.feats),
               is_vector<T>(args.result, args.feats, args.feats));
    if (args.weights) {
      const int64_t threads = ceil_div(args.in.edges, kWarp * kSteps) * kWarp;
      start_flat(attention_weights_kernel<Acc<T>>, threads, stream, shape, args);
    }
  });
}

template <>
size_t workspace_bytes(const AttentionBackward& args, const LaunchShape& shape) {
  const size_t sums = workspace_bytes(sums_of(args, args.grad_scores), shape);
  const size_t el = args.grad_el ? workspace_bytes(el_sum_of(args), shape) : 0;
  return dot_bytes(args) + (sums > el ? sums : el);
}

template <>
void launch(const AttentionBackward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  void* rest = static_cast<char*>(workspace) + dot_bytes(args);
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Acc<T>;
    A* dots = args.out.edges ? static_cast<A*>(workspace) : nullptr;
    const int64_t threads = ceil_div(args.out.edges, kWarp * kSteps) * kWarp;
    const int lanes = lanes_for(args.feats);
    const bool vector =
        is_vector<T>(args.grad, args.grad_stride, args.feats) && is_vector<T>(args.result, args.feats, args.feats);
    const A* no_dots = nullptr;
    start_flat(attention_records_kernel<T>, args.in.rows * args.heads * lanes, stream, shape, args, lanes, vector);
    start_flat(attention_edges_kernel<A>, threads, stream, shape, args, no_dots);
    launch(sums_of(args, dots), rest, stream, shape);
    start_flat(attention_edges_kernel<A>, threads, stream, shape, args, static_cast<const A*>(dots));
    if (args.grad_el) launch(el_sum_of(args), rest, stream, shape);
  });
}

template <>
size_t workspace_bytes(const EdgeScoresForward& args, const LaunchShape& shape) {
  return score_bytes(args, plan_of(args, shape));
}

template <>
void launch(const EdgeScoresForward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Acc<T>;
    WalkPlan plan = plan_of(args, shape);
    const bool apart = score_bytes(args, plan) > 0;
    ScoreArgs<T> a = score_args<T>(args, true);
    a.scores = static_cast<A*>(apart ? workspace : args.scores);
    plan.start(edge_scores_kernel<T>, nullptr, stream, shape, a);
    if (apart)
      sum_slabs(a.scores, plan.walk.slabs, args.in.edges * args.heads, static_cast<A*>(args.scores), stream, shape);
  });
}

template <>
size_t workspace_bytes(const EdgeScoresBackward& args, const LaunchShape& shape) {
  return ScorePlans(args, shape).bytes;
}

template <>
void launch(const EdgeScoresBackward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Acc<T>;
    ScorePlans plans(args, shape);
    char* scratch = static_cast<char*>(workspace);
    ScoreArgs<T> a = score_args<T>(args, true), b = score_args<T>(args, false);
    a.grad = b.grad = static_cast<const A*>(args.grad);
    a.grad_own = static_cast<T*>(args.grad_q), b.grad_own = static_cast<T*>(args.grad_p);
    a.grad_w = static_cast<A*>(args.grad_w);
    a.vector_grad = is_vector<T>(args.grad_q, args.feats, args.feats);
    b.vector_grad = is_vector<T>(args.grad_p, args.feats, args.feats);
    a.blocks = {reinterpret_cast<double*>(scratch + plans.values), reinterpret_cast<int*>(scratch + plans.counters)};
    a.nodes = plans.nodes, a.arrivals = plans.arrivals;
    if (plans.by_dst.blocks == 0) {
      cudaMemsetAsync(args.grad_w, 0, args.heads * args.feats * sizeof(A), stream);
    } else if (plans.arrivals > 0) {
      cudaMemsetAsync(a.blocks.arrivals, 0, plans.by_dst.layers * plans.arrivals * sizeof(int), stream);
    }
    plans.by_dst.start(edge_scores_backward_kernel<T, true>, scratch + plans.pieces, stream, shape, a);
    plans.by_src.start(edge_scores_backward_kernel<T, false>, scratch + plans.pieces, stream, shape, b);
  });
}

}  // namespace dgl_ptdnet::cuda
