// The arguments of the edge gate's kernels, as plain pointers. `acc` is float, or double where p and q are double.
#pragma once

#include "core/types.h"
#include "gate.h"

namespace dgl_ptdnet {

struct EdgeGateInputs {
  EdgeIndexView index;
  Dtype dtype;    // of p and q
  const void* p;  // [num_src, hidden], rows p_stride elements apart
  const void* q;  // [num_dst, hidden], rows q_stride elements apart
  int64_t p_stride, q_stride, hidden;
  const void* w;  // [hidden] acc
  GateOptions options;
  bool noisy;  // whether the gates are sampled
};

struct EdgeGateForward : EdgeGateInputs {
  const void* c;            // [] acc
  const void* edge_bias;    // [E] acc, or null
  const int64_t* noise;     // [2] seed and offset, null unless noisy
  const int64_t* edge_ids;  // [E], or null for 0 .. E-1
  // outputs
  void* z;        // [E] acc
  void* penalty;  // [] acc, the expected number of open gates; or null
  uint8_t* mask;  // [E, mask_bytes], by position; bit k % 8 of byte k / 8: p_uk + q_vk > 0. Or null
  void* logit;    // [E] acc, or null
};

struct EdgeGateBackward : EdgeGateInputs {
  const void* z;             // [E] acc
  const uint8_t* mask;       // [E, mask_bytes], by position; null if hidden = 1, where it is recomputed
  const void* logit;         // [E] acc, or null: only the penalty's gradient needs it
  const void* grad_z;        // [E] acc, or null
  const void* grad_penalty;  // [] acc, or null
  // outputs
  void* grad_p;     // [num_src, hidden] of dtype, contiguous
  void* grad_q;     // [num_dst, hidden] of dtype, contiguous
  void* grad_w;     // [hidden] acc
  void* grad_c;     // [] acc
  void* grad_bias;  // [E] acc, or null
};

inline int64_t mask_bytes(int64_t hidden) { return hidden == 1 ? 0 : (hidden + 7) / 8; }

}  // namespace dgl_ptdnet
