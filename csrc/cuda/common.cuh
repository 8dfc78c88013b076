// Shared by all kernels: number types, access to a lane's columns, sums over all blocks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstring>
#include <type_traits>

#include "launch.h"

namespace dgl_ptdnet::cuda {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 256;
constexpr int kColumns = 8;  // columns of a lane: a byte of the mask, a 32-byte sector of an fp32 row

template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }

__device__ __forceinline__ void narrow(float x, float& y) { y = x; }
__device__ __forceinline__ void narrow(double x, double& y) { y = x; }
__device__ __forceinline__ void narrow(float x, __nv_bfloat16& y) { y = __float2bfloat16_rn(x); }
__device__ __forceinline__ void narrow(float x, __half& y) { y = __float2half_rn(x); }

// Calls f with a value of the type of p and q.
template <class F>
void dispatch(Dtype dtype, F f) {
  switch (dtype) {
    case Dtype::f32:
      return f(float{});
    case Dtype::f64:
      return f(double{});
    case Dtype::bf16:
      return f(__nv_bfloat16{});
    case Dtype::f16:
      return f(__half{});
  }
}

// x * grad; 0 if grad is 0, even if x is infinite or NaN.
template <class A>
__device__ __forceinline__ A times(A x, A grad) {
  return grad == A(0) ? A(0) : x * grad;
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline size_t round_up(size_t bytes) { return (bytes + 15) / 16 * 16; }
inline size_t acc_bytes(Dtype dtype) { return dtype == Dtype::f64 ? sizeof(double) : sizeof(float); }

// The number of lanes for a row: a power of two that covers it, or a warp, which then walks over it.
inline int lanes_for(int64_t hidden) {
  int lanes = 1;
  while (lanes < kWarp && lanes * kColumns < hidden) lanes *= 2;
  return lanes;
}

__device__ __forceinline__ unsigned group_mask(int lanes) {
  return (~0u >> (kWarp - lanes)) << (threadIdx.x % kWarp / lanes * lanes);
}

// Whether rows can be read in pieces of 16 bytes.
template <class T>
bool is_vector(const void* rows, int64_t stride, int64_t hidden) {
  constexpr int64_t kPiece = 16 / sizeof(T);
  return hidden > 1 && reinterpret_cast<uintptr_t>(rows) % 16 == 0 && stride % kPiece == 0 && hidden % kPiece == 0;
}

// Columns k .. k + V of a row; zero past its end.
template <int V, bool kVector, class T>
__device__ __forceinline__ void load_columns(const T* row, int k, int hidden, Acc<T> (&x)[V]) {
  if constexpr (kVector) {
    constexpr int kPiece = 16 / sizeof(T);
#pragma unroll
    for (int i = 0; i < V; i += kPiece) {
      uint4 raw = make_uint4(0, 0, 0, 0);
      if (k + i < hidden) raw = __ldg(reinterpret_cast<const uint4*>(row + k + i));
      T piece[kPiece];
      memcpy(piece, &raw, sizeof(raw));
#pragma unroll
      for (int j = 0; j < kPiece; ++j) x[i + j] = widen(piece[j]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) x[i] = k + i < hidden ? widen(__ldg(row + k + i)) : Acc<T>(0);
  }
}

template <int V, class T>
__device__ __forceinline__ void store_columns(T* row, int k, int hidden, bool vector, const Acc<T> (&x)[V]) {
  T y[V];
#pragma unroll
  for (int i = 0; i < V; ++i) narrow(x[i], y[i]);
  constexpr int kPiece = 16 / sizeof(T);
  if (V >= kPiece && vector) {
#pragma unroll
    for (int i = 0; i + kPiece <= V; i += kPiece) {
      uint4 raw;
      memcpy(&raw, y + i, sizeof(raw));
      if (k + i < hidden) *reinterpret_cast<uint4*>(row + k + i) = raw;
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (k + i < hidden) row[k + i] = y[i];
  }
}

// Sets part[lane * N + i] to the sum of x[i] over the block's groups, in a fixed order. All threads of the block call
// it.
template <int N>
__device__ __forceinline__ void sum_over_groups(double (&x)[N], int lanes, double* part) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int i = 0; i < N; ++i)
    for (int step = lanes; step < kWarp; step *= 2) x[i] += __shfl_xor_sync(~0u, x[i], step);
  for (int warp = 0; warp < blockDim.x / kWarp; ++warp) {
    if (threadIdx.x / kWarp == warp && lane < lanes) {
#pragma unroll
      for (int i = 0; i < N; ++i) part[lane * N + i] = (warp ? part[lane * N + i] : 0) + x[i];
    }
    __syncthreads();
  }
}

// Adds up the blocks' numbers in a fixed order, whatever the order in which blocks arrive: a tree of groups of kFan.
// The last block of a group to arrive adds the group's numbers in order and takes the sum to the next level.
struct BlockTree {
  static constexpr int kFan = 32;
  double* values;  // [nodes, columns]
  int* arrivals;   // [nodes - blocks], zero before and after

  static int64_t nodes(int64_t blocks) {
    int64_t count = blocks;
    while (blocks > 1) count += blocks = ceil_div(blocks, kFan);
    return count;
  }

  // Thread k % blockDim.x keeps column k of `part`. True in the block that ends up with the totals.
  __device__ __forceinline__ bool sum(double* part, int columns) const {
    __shared__ bool last;
    double* level = values;
    int* counter = arrivals;
    int node = blockIdx.x, nodes = gridDim.x;
    while (nodes > 1) {
      for (int k = threadIdx.x; k < columns; k += blockDim.x) level[int64_t{node} * columns + k] = part[k];
      __threadfence();
      __syncthreads();
      const int parent = node / kFan, first = parent * kFan, members = min(kFan, nodes - first);
      if (threadIdx.x == 0) {
        last = atomicAdd(counter + parent, 1) == members - 1;
        if (last) atomicExch(counter + parent, 0);
      }
      __syncthreads();
      if (!last) return false;
      __threadfence();
      for (int k = threadIdx.x; k < columns; k += blockDim.x) {
        double sum = 0;
        for (int i = 0; i < members; ++i) sum += __ldcg(level + int64_t{first + i} * columns + k);
        part[k] = sum;
      }
      level += int64_t{nodes} * columns;
      node = parent;
      nodes = (nodes + kFan - 1) / kFan;
      counter += nodes;
    }
    return true;
  }
};

}  // namespace dgl_ptdnet::cuda
