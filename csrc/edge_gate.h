// What the edge gate's kernels are given: plain pointers. `acc` is float, or double where p and q are double.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dgl_ptdnet {

enum class Dtype : int { f32 = 0, f64 = 1, bf16 = 2, f16 = 3 };

// A position is an edge's place in destination order; edges of one destination keep the caller's order.
struct EdgeIndexView {
  const int32_t* in_ptr;   // [num_dst + 1] positions of each destination
  const int32_t* in_src;   // [E] source of each position
  const int32_t* in_dst;   // [E] destination of each position
  const int32_t* in_edge;  // [E] the caller's number of each position's edge
  const int32_t* out_ptr;  // [num_src + 1] slots of each source
  const int32_t* out_pos;  // [E] position of each slot; positions ascend within a source
  int64_t edges, num_src, num_dst;
};

struct EdgeGateInputs {
  EdgeIndexView index;
  Dtype dtype;    // of p and q
  const void* p;  // [num_src, hidden], rows p_stride elements apart
  const void* q;  // [num_dst, hidden], rows q_stride elements apart
  int64_t p_stride, q_stride, hidden;
  const void* w;          // [hidden] acc
  double negative_slope;  // of the activation: 0 relu, 1 identity
  double tau, gamma, zeta;
  bool noisy;  // whether the gates were, or are to be, sampled
};

struct EdgeGateForward : EdgeGateInputs {
  const void* c;            // [] acc
  const void* edge_bias;    // [E] acc, or null
  const int64_t* noise;     // [2] seed and offset, null unless noisy
  const int64_t* edge_ids;  // [E], or null for 0 .. E-1
  // outputs
  void* z;        // [E] acc
  void* penalty;  // [] acc, or null
  uint8_t* mask;  // [E, mask_bytes], by position; bit k % 8 of byte k / 8: p_uk + q_vk > 0. Or null
  void* logit;    // [E] acc, or null
};

struct EdgeGateBackward : EdgeGateInputs {
  const void* z;             // [E] acc
  const uint8_t* mask;       // [E, mask_bytes], by position; null where hidden = 1: recomputed
  const void* logit;         // [E] acc, or null: only the penalty's gradient needs it
  const void* grad_z;        // [E] acc, or null
  const void* grad_penalty;  // [] acc, or null
  // outputs
  void* grad_p;     // [num_src, hidden] of dtype, contiguous
  void* grad_q;     // [num_dst, hidden] of dtype, contiguous
  void* grad_w;     // [hidden] acc
  void* grad_c;     // [] acc
  void* grad_bias;  // [E] acc, or null
  // scratch of the CPU's kernels
  void* records;  // [E, record_bytes], by position: dL/dlogit and, where it is short, the mask beside it
};

inline int64_t mask_bytes(int64_t hidden) { return hidden == 1 ? 0 : (hidden + 7) / 8; }

// The pass over sources meets edges in random order: a number and a mask that lie together are one access to memory.
inline bool has_mask(int64_t hidden) { return hidden > 1 && mask_bytes(hidden) <= 4; }
inline int64_t record_bytes(int64_t hidden, int64_t acc_bytes) { return has_mask(hidden) ? 2 * acc_bytes : acc_bytes; }

}  // namespace dgl_ptdnet
