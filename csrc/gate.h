// The formula of the edge gate, once, for host and device:
//   logit = sum_k w_k * act(p_uk + q_vk) + b_e + c
//   s     = sigmoid((log eps - log(1 - eps) + logit) / tau)     with noise;  sigmoid(logit) without
//   z     = clip(s * (zeta - gamma) + gamma, 0, 1)
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define PTD_HD __host__ __device__ __forceinline__
#else
#define PTD_HD inline __attribute__((always_inline))
#endif

namespace dgl_ptdnet {

struct Philox4 {
  uint32_t x[4];
};

// Philox4x32-10. The draw of an edge depends on its id and on (seed, offset) alone.
PTD_HD Philox4 philox(uint64_t counter, uint64_t seed, uint64_t offset) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(offset), c3 = static_cast<uint32_t>(offset >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t b = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(b);
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

PTD_HD uint32_t edge_bits(int64_t id, uint64_t seed, uint64_t offset) {
  const Philox4 draw = philox(static_cast<uint64_t>(id) >> 2, seed, offset);
  const uint32_t lower = id & 1 ? draw.x[1] : draw.x[0], upper = id & 1 ? draw.x[3] : draw.x[2];
  return id & 2 ? upper : lower;  // an index would put the array into a GPU's local memory
}

// Half-integers of 2^-23: exact in fp32 and never 0 or 1, so that the logarithms stay finite.
template <class A>
PTD_HD A uniform(uint32_t bits) {
  return (static_cast<A>(bits >> 9) + A(0.5)) * A(1.1920928955078125e-07);
}

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
inline Stretch<A> stretch(double tau, double gamma, double zeta, bool noisy) {
  return {static_cast<A>(noisy ? 1 / tau : 1.0), static_cast<A>(gamma), static_cast<A>(zeta),
          static_cast<A>(tau * std::log(-gamma / zeta))};
}

}  // namespace dgl_ptdnet
