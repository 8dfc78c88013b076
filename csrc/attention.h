// The arguments of attention's kernels, as plain pointers. With the score a_e of an edge e = (u, v), for every head,
//   out_v = sum of z_e exp(a_e) h_u / sum of z_e exp(a_e)
// `acc` is float, or double where rows are double.
#pragma once

#include "core/types.h"

namespace dgl_ptdnet {

struct AttentionInputs {
  EdgeSide in, out;  // by destination, by source
  Dtype dtype;       // of h and out
  int64_t heads, feats;
  const void* h;  // [num_src, heads, feats], rows h_stride elements apart
  int64_t h_stride;
  const void* el;      // [num_src, heads] acc: a_e = leaky_relu(el_u + er_v)
  const void* er;      // [num_dst, heads] acc
  const void* scores;  // [E, heads] acc in the caller's order: a_e itself, then el and er are null; or null
  const void* z;       // [E, z_heads] acc in the caller's order, or null: ones
  int64_t z_heads;     // 1 or heads
  double negative_slope;
};

// An edge is kept where z_e is not 0. Where a destination keeps none, out, max and sum are 0.
struct AttentionForward : AttentionInputs {
  // outputs
  void* result;   // [num_dst, heads, feats]
  void* max;      // [num_dst, heads] acc, of the kept scores
  void* sum;      // [num_dst, heads] acc, of z_e exp(a_e - max)
  void* weights;  // [E, heads] acc in the caller's order: z_e exp(a_e - max) / sum; or null
};

// With g = dL/dout, D_v = <out_v, g_v> + shift_v, beta_e = exp(a_e - max_v) / sum_v, alpha_e = z_e beta_e and
// t_e = <h_u, g_v> + grad_weights_e - D_v:  dL/da_e = alpha_e t_e,  dL/dz_e = beta_e t_e,  dL/dh_u = sum alpha_e g_v.
struct AttentionBackward : AttentionInputs {
  const void* grad;  // [num_dst, heads, feats], rows grad_stride elements apart
  int64_t grad_stride;
  const void* result;        // [num_dst, heads, feats], contiguous
  const void* max;           // [num_dst, heads] acc
  const void* sum;           // [num_dst, heads] acc
  const void* grad_weights;  // [E, heads] acc, or null
  const void* shift;         // [num_dst, heads] acc: the sum of weights_e grad_weights_e; or null
  // outputs
  void* grad_h;       // [num_src, heads, feats], or null
  void* grad_el;      // [num_src, heads] acc, null where scores are given
  void* grad_scores;  // [E, heads] acc: dL/dscores, or dL/d(el_u + er_v), whose sum by destination is er's gradient
  void* grad_z;       // [E, z_heads] acc, or null
  // scratch
  void* records;  // [num_dst, 4, heads] acc: er (0 if scores are given), max, 1 / sum (0 if sum is 0), D
};

// Maximum of beta, and so a limit of dL/dz: the score of an edge that is not kept may be far above the kept edges'.
constexpr double max_beta = 1e30;

// GATv2's scores: a_e = sum_k w_k leaky_relu(p_uk + q_vk) for every head.
struct EdgeScoresInputs {
  EdgeSide in, out;
  Dtype dtype;  // of p and q
  int64_t heads, feats;
  const void* p;  // [num_src, heads, feats], rows p_stride elements apart
  const void* q;  // [num_dst, heads, feats], rows q_stride elements apart
  int64_t p_stride, q_stride;
  const void* w;  // [heads, feats] acc
  double negative_slope;
};

struct EdgeScoresForward : EdgeScoresInputs {
  // outputs
  void* scores;  // [E, heads] acc in the caller's order
};

struct EdgeScoresBackward : EdgeScoresInputs {
  const void* grad;  // [E, heads] acc in the caller's order
  // outputs
  void* grad_p;  // [num_src, heads, feats]
  void* grad_q;  // [num_dst, heads, feats]
  void* grad_w;  // [heads, feats] acc
};

}  // namespace dgl_ptdnet
