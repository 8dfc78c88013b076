// Types that all operators share: number types, and a graph's edges in both orders. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>

// A function for host and device.
#ifdef __CUDACC__
#define PTD_HD __host__ __device__ __forceinline__
#else
// inline, so that files compiled for different instruction sets share no copy
#define PTD_HD inline __attribute__((always_inline))
#endif

namespace dgl_ptdnet {

enum class Dtype : int { f32 = 0, f64 = 1, bf16 = 2, f16 = 3 };

// The edges grouped by row, in a fixed order. A row is a destination and `node` the source, or a row is a source and
// `node` the destination.
struct EdgeSide {
  const int32_t* ptr;   // [rows + 1]
  const int32_t* node;  // [E] the other end of each edge
  const int32_t* edge;  // [E] the caller's number of each edge
  int64_t rows, others, edges;
};

// An edge's position is its place in the order by destination, where edges of one destination keep the caller's order.
// Its slot is its place in the order by source.
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

// Arguments of a derived type that start from those in their base, which two operators share.
template <class Args, class Base>
Args extend(const Base& base) {
  Args args{};
  static_cast<Base&>(args) = base;
  return args;
}

}  // namespace dgl_ptdnet
