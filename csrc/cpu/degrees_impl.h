// Degrees and gates' normalisation on a CPU. Memory-bound, so plain C++ is as fast as intrinsics. Each function works
// on tasks [begin, end), see tasks.h.
#pragma once

#include <cmath>

#include "../degrees.h"
#include "tasks.h"

namespace dgl_ptdnet {
namespace {

template <class A, int fixed>
void sum_segments(const SegmentSum& a, double* pieces, int64_t begin, int64_t end) {
  const int64_t heads = fixed ? fixed : a.heads, last = a.side.edges - 1;
  const A* x = static_cast<const A*>(a.x);
  A* out = static_cast<A*>(a.out);
  Buffer<double> sum(heads);
  for_segments(a.side, begin, end, [&](int64_t task, const Segment& s) {
    double* to = s.whole() ? sum.data : pieces + s.piece(task) * heads;
    for (int64_t h = 0; h < heads; ++h) to[h] = 0;
    for (int64_t i = s.begin; i < s.end; ++i) {
      __builtin_prefetch(x + a.side.edge[i + 32 < last ? i + 32 : last] * heads);
      for (int64_t h = 0; h < heads; ++h) to[h] += static_cast<double>(x[a.side.edge[i] * heads + h]);
    }
    if (s.whole())
      for (int64_t h = 0; h < heads; ++h) out[s.row * heads + h] = static_cast<A>(to[h]);
  });
}

template <class A>
void join_segments(const SegmentSum& a, const double* pieces, int64_t begin, int64_t end) {
  Buffer<double> sum(a.heads);
  for_shared_rows(a.side, begin, end, [&](int64_t row, int64_t task, int64_t last) {
    add_pieces(pieces, a.heads, task, last, sum.data);
    for (int64_t h = 0; h < a.heads; ++h) static_cast<A*>(a.out)[row * a.heads + h] = static_cast<A>(sum.data[h]);
  });
}

template <class A>
void spread_segments(const SegmentSpread& a, int64_t begin, int64_t end) {
  const A* x = static_cast<const A*>(a.x);
  A* out = static_cast<A*>(a.out);
  for_segments(a.side, begin, end, [&](int64_t, const Segment& s) {
    for (int64_t i = s.begin; i < s.end; ++i)
      for (int64_t h = 0; h < a.heads; ++h) out[a.side.edge[i] * a.heads + h] = x[s.row * a.heads + h];
  });
}

template <class A>
struct Normalizer {
  const Normalize& a;
  const A *z = static_cast<const A*>(a.z), *out_deg = static_cast<const A*>(a.out_deg);
  const A *in_deg = static_cast<const A*>(a.in_deg), floor = static_cast<A>(a.options.floor);

  static A power(A degree, double exponent) {  // degree^-exponent
    return exponent == 0.5 ? A(1) / std::sqrt(degree)
           : exponent == 1 ? A(1) / degree
                           : std::pow(degree, static_cast<A>(-exponent));
  }
  A scale(const A* degrees, int64_t node, double exponent) const {
    if (!degrees) return A(1);
    const A base = degrees[node] < floor ? floor : degrees[node];
    return base == 0 ? A(0) : power(base, exponent);
  }
  // exponent / degree; 0 where the degree is 0 or below the floor
  A slope(const A* degrees, int64_t node, double exponent) const {
    const bool counts = degrees && degrees[node] != 0 && !(degrees[node] < floor);
    return counts ? static_cast<A>(exponent) / degrees[node] : A(0);
  }

  void forward(int64_t begin, int64_t end) const {
    A* w = static_cast<A*>(a.w);
    visit(begin, end,
          [&](int64_t e, int64_t u, int64_t, A in) { w[e] = z[e] * scale(out_deg, u, a.options.left) * in; });
  }

  void backward(const NormalizeBackward& b, int64_t begin, int64_t end) const {
    const A *grad = static_cast<const A*>(b.grad), *out_sum = static_cast<const A*>(b.out_sum);
    const A* in_sum = static_cast<const A*>(b.in_sum);
    A* grad_z = static_cast<A*>(b.grad_z);
    visit(begin, end, [&](int64_t e, int64_t u, int64_t v, A in) {
      A g = grad[e] * scale(out_deg, u, a.options.left) * in;
      if (out_deg) g -= slope(out_deg, u, a.options.left) * out_sum[u];
      if (in_deg) g -= slope(in_deg, v, a.options.right) * in_sum[v];
      grad_z[e] = g;
    });
  }

 private:
  // Calls see(edge's number, source's number, destination's number, destination's scale) for tasks [begin, end). A
  // number is a place in the arrays [E, heads], [num_src, heads] and [num_dst, heads].
  template <class Visit>
  void visit(int64_t begin, int64_t end, const Visit& see) const {
    for_segments(a.in, begin, end, [&](int64_t, const Segment& s) {
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t v = s.row * a.heads + h;
        const A in = scale(in_deg, v, a.options.right);
        for (int64_t i = s.begin; i < s.end; ++i) see(a.in.edge[i] * a.heads + h, a.in.node[i] * a.heads + h, v, in);
      }
    });
  }
};

}  // namespace
}  // namespace dgl_ptdnet
