// Forward: a group of L lanes reads the rows of L edges together; then each lane finishes the gate of one edge.
#include "common.cuh"

namespace dgl_ptdnet::cuda {
namespace {

// The logit of this lane's edge, without bias. The group works on two edges at a time, each lane on V columns of both
// rows; then lanes exchange sums so that each ends with the sum of its own edge. The order of additions is the same for
// every edge. More edges at a time would only need more registers.
template <class T, int V, int L, bool kVector>
__device__ __forceinline__ Acc<T> sum_rows(const EdgeGateForward& args, int64_t first, int32_t src, int32_t dst) {
  using A = Acc<T>;
  constexpr int B = L < 2 ? L : 2;
  const int lane = threadIdx.x % L;
  const unsigned group = group_mask(L);
  const int hidden = args.hidden;
  const int64_t mask_bytes = (hidden + 7) / 8;
  const A negative_slope = static_cast<A>(args.options.negative_slope);
  const bool relu = negative_slope == A(0);

  A mine = 0;
#pragma unroll 1
  for (int round = 0; round < L && first + round < args.index.edges; round += B) {
    const T *p[B], *q[B];
    A sum[B] = {};
#pragma unroll
    for (int b = 0; b < B; ++b) {
      const int64_t u = L == 1 ? src : __shfl_sync(group, src, round + b, L);
      const int64_t v = L == 1 ? dst : __shfl_sync(group, dst, round + b, L);
      p[b] = static_cast<const T*>(args.p) + u * args.p_stride;
      q[b] = static_cast<const T*>(args.q) + v * args.q_stride;
    }
    int k = lane * V;
    do {  // once, unless a row is longer than a warp's columns
      A w[V], x[B][V];
      load_columns<V, false>(static_cast<const A*>(args.w), k, hidden, w);
#pragma unroll
      for (int b = 0; b < B; ++b) load_columns<V, kVector>(p[b], k, hidden, x[b]);
#pragma unroll
      for (int b = 0; b < B; ++b) {
        A y[V];
        load_columns<V, kVector>(q[b], k, hidden, y);
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const A h = x[b][i] + y[i];
          bits |= static_cast<unsigned>(h > A(0)) << i;
          const A act = h > A(0) ? h : relu && h < A(0) ? A(0) : negative_slope * h;  // NaN stays, relu(-inf) is 0
          sum[b] = fma(w[i], act, sum[b]);
        }
        if (args.mask && k < hidden && first + round + b < args.index.edges)
          args.mask[(first + round + b) * mask_bytes + k / V] = static_cast<uint8_t>(bits);
      }
      k += V * L;
    } while (L == kWarp && k < hidden);

    A total = sum[0];
    if constexpr (B == 2) {
      const bool odd = lane & 1;
      total = (odd ? sum[1] : sum[0]) + __shfl_xor_sync(group, odd ? sum[0] : sum[1], 1);
    }
#pragma unroll
    for (int step = B; step < L; step *= 2) total += __shfl_xor_sync(group, total, step);
    if (lane / B == round / B) mine = total;
  }
  return mine;
}

template <class T, int V, int L, bool kVector>
__global__ void __launch_bounds__(kMaxThreads, sizeof(Acc<T>) == 8 || !kVector ? 2 : 3)
    edge_gate_forward_kernel(const EdgeGateForward args, const Stretch<Acc<T>> stretch, const BlockTree blocks) {
  using A = Acc<T>;
  __shared__ double part[1];
  const EdgeIndexView& index = args.index;
  const int lane = threadIdx.x % L;
  const A c = __ldg(static_cast<const A*>(args.c));
  double open[1] = {0};

  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x - lane; first < index.edges; first += threads) {
    const int64_t position = first + lane;
    const bool valid = position < index.edges;
    const int32_t src = valid ? __ldg(index.in_src + position) : 0;  // where there is an edge, there is a row 0
    const int32_t dst = valid ? __ldg(index.in_dst + position) : 0;
    A logit = sum_rows<T, V, L, kVector>(args, first, src, dst);
    if (!valid) continue;

    const int64_t e = __ldg(index.in_edge + position);
    if (args.edge_bias) logit += __ldg(static_cast<const A*>(args.edge_bias) + e);
    logit += c;
    A noise = 0;
    if (args.noise) {
      const int64_t id = args.edge_ids ? __ldg(args.edge_ids + e) : e;
      const uint64_t seed = __ldg(args.noise), offset = __ldg(args.noise + 1);
      noise = log_odds(to_uniform<A>(edge_bits(id, seed, offset)));
    }
    static_cast<A*>(args.z)[e] = stretch.gate(logit, noise);
    if (args.logit) static_cast<A*>(args.logit)[e] = logit;
    if (args.penalty) open[0] += stretch.open(logit);
  }

  if (!args.penalty) return;
  sum_over_groups(open, 1, part);
  if (blocks.sum(part, 1) && threadIdx.x == 0) *static_cast<A*>(args.penalty) = static_cast<A>(part[0]);
}

template <class T>
using Kernel = void (*)(EdgeGateForward, Stretch<Acc<T>>, BlockTree);

template <class T, bool kVector>
Kernel<T> kernel_for(int lanes) {
  switch (lanes) {
    case 1:
      return edge_gate_forward_kernel<T, kColumns, 1, kVector>;
    case 2:
      return edge_gate_forward_kernel<T, kColumns, 2, kVector>;
    case 4:
      return edge_gate_forward_kernel<T, kColumns, 4, kVector>;
    case 8:
      return edge_gate_forward_kernel<T, kColumns, 8, kVector>;
    case 16:
      return edge_gate_forward_kernel<T, kColumns, 16, kVector>;
    default:
      return edge_gate_forward_kernel<T, kColumns, 32, kVector>;
  }
}

int64_t count_blocks(const EdgeGateForward& args, const LaunchShape& shape) {
  const int64_t blocks = ceil_div(args.index.edges, shape.threads);
  return blocks < shape.max_blocks ? blocks : shape.max_blocks;
}

}  // namespace

template <>
size_t workspace_bytes(const EdgeGateForward& args, const LaunchShape& shape) {
  return args.penalty ? BlockTree::nodes(count_blocks(args, shape)) * (sizeof(double) + sizeof(int)) : 0;
}

template <>
void launch(const EdgeGateForward& args, void* workspace, cudaStream_t stream, const LaunchShape& shape) {
  if (args.index.edges == 0) {
    if (args.penalty) cudaMemsetAsync(args.penalty, 0, acc_bytes(args.dtype), stream);
    return;
  }
  const int64_t blocks = count_blocks(args, shape), nodes = BlockTree::nodes(blocks);
  BlockTree tree{};
  if (args.penalty) {
    tree.values = static_cast<double*>(workspace);
    tree.arrivals = reinterpret_cast<int*>(tree.values + nodes);
    if (nodes > blocks) cudaMemsetAsync(tree.arrivals, 0, (nodes - blocks) * sizeof(int), stream);
  }
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool vector =
        is_vector<T>(args.p, args.p_stride, args.hidden) && is_vector<T>(args.q, args.q_stride, args.hidden);
    const int lanes = lanes_for(args.hidden);
    const Kernel<T> kernel = args.hidden == 1 ? edge_gate_forward_kernel<T, 1, 1, false>
                             : vector         ? kernel_for<T, true>(lanes)
                                              : kernel_for<T, false>(lanes);
    kernel<<<blocks, shape.threads, 0, stream>>>(args, stretch<Acc<T>>(args.options, args.noisy), tree);
  });
}

}  // namespace dgl_ptdnet::cuda
