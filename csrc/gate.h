// The formula of the edge gate, for host and device:
//   logit = sum_k w_k * act(p_uk + q_vk) + b_e + c
//   s     = sigmoid((log eps - log(1 - eps) + logit) / tau)     with noise;  sigmoid(logit) without
//   z     = clip(s * (zeta - gamma) + gamma, 0, 1)
#pragma once

#include <cmath>

#include "core/philox.h"

namespace dgl_ptdnet {

struct GateOptions {
  double negative_slope;    // of the activation: 0 relu, 1 identity
  double tau, gamma, zeta;  // temperature of the samples; the interval that they are stretched to and then clipped
};

template <class A>
PTD_HD A log_odds(A eps) {
  return std::log(eps / (A(1) - eps));
}

template <class A>
PTD_HD A sigmoid(A x) {
  return A(1) / (A(1) + std::exp(-x));
}

// Computes a gate and its slopes from a logit. `scale` is 1 / tau with noise and 1 without: the derivative of the
// sigmoid's argument by the logit.
template <class A>
struct Stretch {
  A scale, gamma, zeta, shift;  // shift = tau * log(-gamma / zeta), for the penalty

  PTD_HD A gate(A logit, A noise) const {
    const A z = sigmoid((logit + noise) * scale) * (zeta - gamma) + gamma;
    return z < A(0) ? A(0) : z > A(1) ? A(1) : z;  // NaN stays NaN
  }
  // dz/dlogit, from the gate alone: 0 where the gate is clipped.
  PTD_HD A slope(A z) const {
    if (z <= A(0) || z >= A(1)) return A(0);
    const A s = (z - gamma) / (zeta - gamma);
    return (zeta - gamma) * s * (A(1) - s) * scale;
  }
  // The probability that the gate is open (not exactly 0), and its derivative by the logit.
  PTD_HD A open(A logit) const { return sigmoid(logit - shift); }
  PTD_HD A open_slope(A logit) const {
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
