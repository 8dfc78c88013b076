// The formula of the edge gate, once, for host and device:
//   logit = sum_k w_k * act(p_uk + q_vk) + b_e + c
//   s     = sigmoid((log eps - log(1 - eps) + logit) / tau)     with noise;  sigmoid(logit) without
//   z     = clip(s * (zeta - gamma) + gamma, 0, 1)
#pragma once

#include <cmath>

#include "core/philox.h"

namespace dgl_ptdnet {

struct GateOptions {
  double negative_slope;    // of the activation: 0 relu, 1 identity
  double tau, gamma, zeta;  // temperature of the samples; what they are stretched to before they are clipped
};

template <class A>
PTD_HD A log_odds(A eps) {
  return std::log(eps / (A(1) - eps));
}

template <class A>
PTD_HD A sigmoid(A x) {
  return A(1) / (A(1) + std::exp(-x));
}

// What a gate needs besides its logit. `scale` is 1 / tau with noise and 1 without: the slope of the
// sigmoid's argument in the logit.
template <class A>
struct Stretch {
  A scale, gamma, zeta, shift;  // shift = tau * log(-gamma / zeta), the penalty's

  PTD_HD A gate(A logit, A noise) const {
    const A z = sigmoid((logit + noise) * scale) * (zeta - gamma) + gamma;
    return z < A(0) ? A(0) : z > A(1) ? A(1) : z;  // NaN stays NaN
  }
  // dz/dlogit, from the gate alone: outside the band it is clipped and has none.
  PTD_HD A slope(A z) const {
    if (z <= A(0) || z >= A(1)) return A(0);
    const A s = (z - gamma) / (zeta - gamma);
    return (zeta - gamma) * s * (A(1) - s) * scale;
  }
  // The chance that the gate is not exactly zero, and its slope in the logit.
  PTD_HD A kept(A logit) const { return sigmoid(logit - shift); }
  PTD_HD A kept_slope(A logit) const {
    const A s = sigmoid(logit - shift);
    return s * (A(1) - s);
  }
};

template <class A>
inline Stretch<A> stretch(const GateOptions& o, bool noisy) {
  return {static_cast<A>(noisy ? 1 / o.tau : 1.0), static_cast<A>(o.gamma), static_cast<A>(o.zeta),
          static_cast<A>(o.tau * std::log(-o.gamma / o.zeta))};
}

}  // namespace dgl_ptdnet
