// The types that every operator shares: number types, and a graph's edges in both orders. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>

// A function for host and device.
#ifdef __CUDACC__
#define PTD_HD __host__ __device__ __forceinline__
#else
#define PTD_HD inline __attribute__((always_inline))  // no two instruction sets may share a copy
#endif

namespace dgl_ptdnet {

enum class Dtype : int { f32 = 0, f64 = 1, bf16 = 2, f16 = 3 };

// The edges of every row, in a fixed order: of destinations, where `node` is the source, or of sources, where it is
// the destination.
struct EdgeSide {
  const int32_t* ptr;   // [rows + 1]
  const int32_t* node;  // [E] the other end of each edge
  const int32_t* edge;  // [E] the caller's number of each edge
  int64_t rows, others, edges;
};

// A position is an edge's place in destination order; edges of one destination keep the caller's order. A slot is its
// place in source order.
struct EdgeIndexView {
  const int32_t* in_ptr;    // [num_dst + 1] positions of each destination
  const int32_t* in_src;    // [E] source of each position
  const int32_t* in_dst;    // [E] destination of each position
  const int32_t* in_edge;   // [E] the caller's number of each position's edge
  const int32_t* out_ptr;   // [num_src + 1] slots of each source
  const int32_t* out_pos;   // [E] position of each slot; positions ascend within a source
  const int32_t* out_dst;   // [E] destination of each slot
  const int32_t* out_edge;  // [E] the caller's number of each slot's edge
  int64_t edges, num_src, num_dst;

  PTD_HD EdgeSide by_dst() const { return {in_ptr, in_src, in_edge, num_dst, num_src, edges}; }
  PTD_HD EdgeSide by_src() const { return {out_ptr, out_dst, out_edge, num_src, num_dst, edges}; }
};

// Arguments that go on from the ones that two operators share.
template <class Args, class Base>
Args extend(const Base& base) {
  Args args{};
  static_cast<Base&>(args) = base;
  return args;
}

}  // namespace dgl_ptdnet
