// Degrees on a CPU, and the normalisation of gates by them: bound by the reading of E numbers in another order, so
// plain C++ serves.
#include "degrees.h"

#include <ATen/Parallel.h>
#include <torch/library.h>

#include <cmath>

#include "../degrees_args.h"
#include "tasks.h"

namespace dgl_ptdnet {
namespace {

template <class A, int fixed>
void sum_segments(const SegmentSum& a, double* pieces, int64_t begin, int64_t end) {
  const int64_t heads = fixed ? fixed : a.heads, last = a.side.edges - 1;
  const A* x = static_cast<const A*>(a.x);
  A* out = static_cast<A*>(a.out);
  Buffer<double> sum(heads);
  for_segments(a.side.ptr, a.side.rows, a.side.edges, begin, end, [&](int64_t task, const Segment& s) {
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
  for_shared_rows(a.side.ptr, a.side.rows, a.side.edges, begin, end, [&](int64_t row, int64_t task, int64_t last) {
    for (int64_t h = 0; h < a.heads; ++h) {
      double total = pieces[(2 * task + 1) * a.heads + h];
      for (int64_t later = task + 1; later <= last; ++later) total += pieces[2 * later * a.heads + h];
      static_cast<A*>(a.out)[row * a.heads + h] = static_cast<A>(total);
    }
  });
}

template <class A>
void spread_segments(const SegmentSum& a, int64_t begin, int64_t end) {
  const A* x = static_cast<const A*>(a.x);
  A* out = static_cast<A*>(a.out);
  for_segments(a.side.ptr, a.side.rows, a.side.edges, begin, end, [&](int64_t, const Segment& s) {
    for (int64_t i = s.begin; i < s.end; ++i)
      for (int64_t h = 0; h < a.heads; ++h) out[a.side.edge[i] * a.heads + h] = x[s.row * a.heads + h];
  });
}

Tensor segment_spread(const Tensor& ptr, const Tensor& edge, const Tensor& x) {
  SegmentTensors t{x, {}};
  const SegmentSum a = t.args(ptr, edge, true);
  at::parallel_for(0, count_row_tasks(a.side.edges), 1, [&](int64_t begin, int64_t end) {
    x.scalar_type() == at::kDouble ? spread_segments<double>(a, begin, end) : spread_segments<float>(a, begin, end);
  });
  return t.out;
}

template <class A>
struct Normalizer {
  const Normalize& a;
  const A *z = static_cast<const A*>(a.z), *out_deg = static_cast<const A*>(a.out_deg);
  const A *in_deg = static_cast<const A*>(a.in_deg), floor = static_cast<A>(a.floor);

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
  // exponent / degree where the degree counts, else 0
  A slope(const A* degrees, int64_t node, double exponent) const {
    const bool counts = degrees && degrees[node] != 0 && !(degrees[node] < floor);
    return counts ? static_cast<A>(exponent) / degrees[node] : A(0);
  }

  void forward(int64_t begin, int64_t end) const {
    A* w = static_cast<A*>(a.w);
    visit(begin, end, [&](int64_t e, int64_t u, int64_t, A in) { w[e] = z[e] * scale(out_deg, u, a.left) * in; });
  }

  void backward(const NormalizeBackward& b, int64_t begin, int64_t end) const {
    const A *grad = static_cast<const A*>(b.grad), *out_sum = static_cast<const A*>(b.out_sum);
    const A* in_sum = static_cast<const A*>(b.in_sum);
    A* grad_z = static_cast<A*>(b.grad_z);
    visit(begin, end, [&](int64_t e, int64_t u, int64_t v, A in) {
      A g = grad[e] * scale(out_deg, u, a.left) * in;
      if (out_deg) g -= slope(out_deg, u, a.left) * out_sum[u];
      if (in_deg) g -= slope(in_deg, v, a.right) * in_sum[v];
      grad_z[e] = g;
    });
  }

 private:
  // For each number of tasks [begin, end): its places in edges', sources' and destinations' numbers and the scale of
  // the last.
  template <class Visit>
  void visit(int64_t begin, int64_t end, const Visit& see) const {
    for_segments(a.in.ptr, a.in.rows, a.in.edges, begin, end, [&](int64_t, const Segment& s) {
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t v = s.row * a.heads + h;
        const A in = scale(in_deg, v, a.right);
        for (int64_t i = s.begin; i < s.end; ++i) see(a.in.edge[i] * a.heads + h, a.in.node[i] * a.heads + h, v, in);
      }
    });
  }
};

std::tuple<Tensor, Tensor, Tensor> normalize(const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge,
                                             const Tensor& out_ptr, const Tensor& out_dst, const Tensor& out_edge,
                                             const Tensor& z, double left, double right, double floor) {
  const Tensor none = empty({0}, z.options());
  NormalizeTensors t{z, left != 0 ? segment_sum(out_ptr, out_edge, z) : none,
                     right != 0 ? segment_sum(in_ptr, in_edge, z) : none};
  Normalize a = t.args({in_ptr, in_src, in_edge}, out_ptr, left, right, floor);
  const Tensor w = empty_like(t.z);
  a.w = w.mutable_data_ptr();
  at::parallel_for(0, count_row_tasks(a.in.edges), 1, [&](int64_t begin, int64_t end) {
    z.scalar_type() == at::kDouble ? Normalizer<double>{a}.forward(begin, end)
                                   : Normalizer<float>{a}.forward(begin, end);
  });
  return {w, t.out_deg, t.in_deg};
}

Tensor normalize_backward(const Tensor& grad, const Tensor& in_ptr, const Tensor& in_src, const Tensor& in_edge,
                          const Tensor& out_ptr, const Tensor& out_dst, const Tensor& out_edge, const Tensor& w,
                          const Tensor& out_deg, const Tensor& in_deg, double left, double right, double floor) {
  const Tensor g = grad.contiguous(), product = g.mul(w);
  NormalizeTensors t{product, out_deg, in_deg};
  NormalizeBackward a{};
  static_cast<Normalize&>(a) = t.args({in_ptr, in_src, in_edge}, out_ptr, left, right, floor);
  const Tensor out_sum = left != 0 ? segment_sum(out_ptr, out_edge, product) : Tensor();
  const Tensor in_sum = right != 0 ? segment_sum(in_ptr, in_edge, product) : Tensor();
  const Tensor grad_z = empty_like(g);
  a.grad = g.const_data_ptr(), a.grad_z = grad_z.mutable_data_ptr();
  a.out_sum = left != 0 ? out_sum.const_data_ptr() : nullptr;
  a.in_sum = right != 0 ? in_sum.const_data_ptr() : nullptr;
  at::parallel_for(0, count_row_tasks(a.in.edges), 1, [&](int64_t begin, int64_t end) {
    g.scalar_type() == at::kDouble ? Normalizer<double>{a}.backward(a, begin, end)
                                   : Normalizer<float>{a}.backward(a, begin, end);
  });
  return grad_z;
}

}  // namespace

Tensor segment_sum(const Tensor& ptr, const Tensor& edge, const Tensor& x) {
  SegmentTensors t{x, {}};
  const SegmentSum a = t.args(ptr, edge, false);
  const int64_t tasks = count_row_tasks(a.side.edges);
  if (tasks == 0) return t.out.zero_();
  Buffer<double> pieces(tasks * 2 * a.heads);
  const auto run = [&](auto pass, auto join) {
    at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { pass(a, pieces.data, begin, end); });
    at::parallel_for(0, tasks, 256, [&](int64_t begin, int64_t end) { join(a, pieces.data, begin, end); });
  };
  if (x.scalar_type() == at::kDouble) {
    run(sum_segments<double, 0>, join_segments<double>);
  } else {
    run(a.heads == 1   ? sum_segments<float, 1>
        : a.heads == 4 ? sum_segments<float, 4>
                       : sum_segments<float, 0>,
        join_segments<float>);
  }
  return t.out;
}

TORCH_LIBRARY_IMPL(dgl_ptdnet, CPU, m) {
  m.impl("segment_sum", segment_sum);
  m.impl("segment_spread", segment_spread);
  m.impl("normalize", normalize);
  m.impl("normalize_backward", normalize_backward);
}

}  // namespace dgl_ptdnet
