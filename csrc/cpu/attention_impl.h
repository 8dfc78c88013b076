// Attention on a CPU, for the level that the including file chose.
#pragma once

#include <limits>

#include "attention_kernels.h"
#include "rows.h"

namespace dgl_ptdnet::PTD_LEVEL {
namespace {

template <class V, class Row>
struct Attention {
  using A = typename V::Acc;
  static constexpr A none = -std::numeric_limits<A>::infinity();  // the maximum of no scores

  static Layout<V> layout(int64_t heads, int64_t feats) {
    return Layout<V>(heads, feats, static_cast<int64_t>(sizeof(Row)));
  }

  // A piece is a row's sum and two numbers a head.
  static int64_t piece_size(int64_t heads, int64_t feats) { return layout(heads, feats).size + 2 * heads; }

  static PTD_INLINE A leaky_relu(A x, A negative_slope) { return x > A(0) ? x : x * negative_slope; }

  static PTD_INLINE void exp_all(const A* x, int64_t n, A* out) {
    int64_t i = 0;
    for (; i + V::width <= n; i += V::width) V::load(x + i).exp().store(out + i);
    if (i < n) V::load(x + i, static_cast<int>(n - i)).exp().store(out + i, static_cast<int>(n - i));
  }

  // ---- forward -----------------------------------------------------------------------------------------------

  // What is known of a segment's scores before it is walked: el of the sources, or all.
  static PTD_INLINE void start_scores(const AttentionInputs& a, const Segment& s, const A* given, A* score) {
    if (given) {
      std::memcpy(score, given, (s.end - s.begin) * a.heads * sizeof(A));
      return;
    }
    const A* el = static_cast<const A*>(a.el);
    for (int64_t i = s.begin; i < s.end; ++i, score += a.heads)
      for (int64_t h = 0; h < a.heads; ++h) score[h] = el[a.in.node[i] * a.heads + h];
  }

  // score [n, heads] of a row's edges, completed.
  template <int fixed>
  static PTD_INLINE void complete_scores(const AttentionInputs& a, int64_t row, int64_t n, A* score) {
    if (a.scores) return;
    const int64_t heads = fixed ? fixed : a.heads;
    const A negative_slope = static_cast<A>(a.negative_slope);
    const A* er = static_cast<const A*>(a.er) + row * heads;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t h = 0; h < heads; ++h)
        score[i * heads + h] = leaky_relu(score[i * heads + h] + er[h], negative_slope);
  }

  // score becomes z_e exp(a_e - max), by head; max is that of the kept scores, sum that of the results.
  template <int fixed>
  static void weigh(const AttentionForward& a, int64_t row, int64_t n, A* score, const A* z, A* max, A* sum) {
    const int64_t heads = fixed ? fixed : a.heads, z_heads = a.z_heads == 1 ? 0 : 1, z_step = a.z_heads;
    complete_scores<fixed>(a, row, n, score);
    for (int64_t h = 0; h < heads; ++h) max[h] = none, sum[h] = A(0);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        const A x = score[i * heads + h];
        max[h] = z[i * z_step + h * z_heads] != A(0) && x > max[h] ? x : max[h];
      }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t h = 0; h < heads; ++h) score[i * heads + h] -= max[h] == none ? A(0) : max[h];
    exp_all(score, n * heads, score);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        const A gate = z[i * z_step + h * z_heads];
        const A weight = gate == A(0) ? A(0) : gate * score[i * heads + h];  // the exponential may be infinite
        score[i * heads + h] = weight;
        sum[h] += weight;
      }
  }

  static void weigh_any(const AttentionForward& a, int64_t row, int64_t n, A* score, const A* z, A* max, A* sum) {
    return a.heads == 1   ? weigh<1>(a, row, n, score, z, max, sum)
           : a.heads == 4 ? weigh<4>(a, row, n, score, z, max, sum)
           : a.heads == 8 ? weigh<8>(a, row, n, score, z, max, sum)
                          : weigh<0>(a, row, n, score, z, max, sum);
  }

  // total: a row's sum, then max and sum by head, which become the inverse of the sum.
  static void store_row(const AttentionForward& a, const Layout<V>& l, int64_t row, A* total) {
    A *max = total + l.size, *sum = max + a.heads;
    for (int64_t h = 0; h < a.heads; ++h) {
      static_cast<A*>(a.max)[row * a.heads + h] = max[h] == none ? A(0) : max[h];
      static_cast<A*>(a.sum)[row * a.heads + h] = sum[h];
      sum[h] = sum[h] == A(0) ? A(0) : A(1) / sum[h];
    }
    l.pack(total, sum, static_cast<Row*>(a.result) + row * a.heads * a.feats);
  }

  static void forward(const AttentionForward& a, void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    RowSums<V, Row, Mode::sum> add(l, a.in, a.h, a.h_stride);
    const int64_t size = l.size + 2 * a.heads;
    ChunkNumbers<A> z(a.in, a.z, a.z_heads, a.heads), scores(a.in, a.scores, a.heads, a.heads);
    Buffer<A> weights(row_task_edges * a.heads), total(size);
    add.x.weights = weights.data;
    for_chunks(a.in, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      z.start(first, past), scores.start(first, past);
      for_segments(a.in.ptr, a.in.rows, a.in.edges, first_task, past_task, [&](int64_t task, const Segment& s) {
        A* to = s.whole() ? total.data : static_cast<A*>(pieces) + s.piece(task) * size;
        start_scores(a, s, a.scores ? scores.at(s.begin) : nullptr, weights.data);
        weigh_any(a, s.row, s.end - s.begin, weights.data, z.at(s.begin), to + l.size, to + l.size + a.heads);
        add.x.base = s.begin;
        add(s.begin, s.end, to);
        if (s.whole()) store_row(a, l, s.row, to);
      });
    });
  }

  static void join_forward(const AttentionForward& a, const void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    const int64_t size = l.size + 2 * a.heads, head_size = l.per_head * V::width;
    Buffer<A> total(size);
    for_shared_rows(a.in.ptr, a.in.rows, a.in.edges, begin, end, [&](int64_t row, int64_t task, int64_t last) {
      A *max = total.data + l.size, *sum = max + a.heads;
      for (int64_t k = 0; k < size; ++k) total.data[k] = k >= l.size && k < l.size + a.heads ? none : A(0);
      const auto piece = [&](int64_t t) { return static_cast<const A*>(pieces) + (2 * t + (t == task)) * size; };
      for (int64_t t = task; t <= last; ++t)
        for (int64_t h = 0; h < a.heads; ++h) {
          const A m = piece(t)[l.size + h];
          max[h] = m > max[h] ? m : max[h];
        }
      for (int64_t t = task; t <= last; ++t) {
        const A* from = piece(t);
        for (int64_t h = 0; h < a.heads; ++h) {
          const A m = from[l.size + h], scale = m == none ? A(0) : std::exp(m - max[h]);
          sum[h] += scale * from[l.size + a.heads + h];
          for (int64_t k = h * head_size; k < (h + 1) * head_size; ++k) total.data[k] += scale * from[k];
        }
      }
      store_row(a, l, row, total.data);
    });
  }

  static void edge_weights(const AttentionForward& a, int64_t begin, int64_t end) {
    const int64_t z_heads = a.z_heads == 1 ? 0 : 1;
    ChunkNumbers<A> z(a.in, a.z, a.z_heads, a.heads), scores(a.in, a.scores, a.heads, a.heads);
    ChunkNumbers<A> weights(a.in, a.heads, a.heads);
    for_chunks(a.in, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      z.start(first, past), scores.start(first, past), weights.start(first, past);
      for_segments(a.in.ptr, a.in.rows, a.in.edges, first_task, past_task, [&](int64_t, const Segment& s) {
        const A* max = static_cast<const A*>(a.max) + s.row * a.heads;
        const A* sum = static_cast<const A*>(a.sum) + s.row * a.heads;
        const A* gates = z.at(s.begin);
        A* weight = weights.at(s.begin);
        const int64_t n = s.end - s.begin;
        start_scores(a, s, a.scores ? scores.at(s.begin) : nullptr, weight);
        complete_scores<0>(a, s.row, n, weight);
        for (int64_t i = 0; i < n; ++i)
          for (int64_t h = 0; h < a.heads; ++h) weight[i * a.heads + h] -= max[h];
        exp_all(weight, n * a.heads, weight);
        for (int64_t i = 0; i < n; ++i)
          for (int64_t h = 0; h < a.heads; ++h) {
            const A gate = gates[i * a.z_heads + h * z_heads];
            const bool kept = gate != A(0) && sum[h] != A(0);
            weight[i * a.heads + h] = kept ? gate * weight[i * a.heads + h] / sum[h] : A(0);
          }
      });
      weights.scatter(past, a.weights);
    });
  }

  // ---- backward ----------------------------------------------------------------------------------------------

  static void records(const AttentionBackward& a, int64_t begin, int64_t end) {
    const Row *result = static_cast<const Row*>(a.result), *grad = static_cast<const Row*>(a.grad);
    const A *er = static_cast<const A*>(a.er), *max = static_cast<const A*>(a.max), *sum = static_cast<const A*>(a.sum);
    const A* shift = static_cast<const A*>(a.shift);
    for (int64_t row = begin; row < end; ++row) {
      A* record = static_cast<A*>(a.records) + row * 4 * a.heads;
      for (int64_t h = 0; h < a.heads; ++h) {
        const Row *x = result + (row * a.heads + h) * a.feats, *g = grad + row * a.grad_stride + h * a.feats;
        V dot = V::splat(0);
        int64_t k = 0;
        for (; k + V::width <= a.feats; k += V::width) dot = V::load(x + k).fma(V::load(g + k), dot);
        if (k < a.feats) {
          const int n = static_cast<int>(a.feats - k);
          dot = V::load(x + k, n).fma(V::load(g + k, n), dot);
        }
        const int64_t i = row * a.heads + h;
        record[h] = er ? er[i] : A(0);
        record[a.heads + h] = max[i];
        record[2 * a.heads + h] = sum[i] == A(0) ? A(0) : A(1) / sum[i];
        record[3 * a.heads + h] = V::sum(dot) + (shift ? shift[i] : A(0));
      }
    }
  }

  // The edges of a segment: what the sums need before they run, and what they leave. And those of a chunk.
  struct Edges {
    Buffer<A> beta, weight, slope, dots;
    ChunkNumbers<A> z, scores, grad_weights, grad_z, grad_scores;

    explicit Edges(const AttentionBackward& a)
        : beta(row_task_edges * a.heads),
          weight(row_task_edges * a.heads),
          slope(row_task_edges * a.heads),
          dots(row_task_edges * a.heads),
          z(a.out, a.z, a.z_heads, a.heads),
          scores(a.out, a.scores, a.heads, a.heads),
          grad_weights(a.out, a.grad_weights, a.heads, a.heads),
          grad_z(a.out, a.z_heads, a.heads),
          grad_scores(a.out, a.heads, a.heads) {}

    void start(int64_t first, int64_t past) {
      for (ChunkNumbers<A>* x : {&z, &scores, &grad_weights, &grad_z, &grad_scores}) x->start(first, past);
    }
  };

  // beta, weight and slope of a segment.
  template <int fixed>
  static void weigh_again(const AttentionBackward& a, const Segment& s, Edges& e) {
    const int64_t heads = fixed ? fixed : a.heads, z_heads = a.z_heads == 1 ? 0 : 1, z_step = a.z_heads;
    const int64_t n = s.end - s.begin;
    const A* records = static_cast<const A*>(a.records);
    const A* el = a.el ? static_cast<const A*>(a.el) + s.row * heads : nullptr;
    const A *z = e.z.at(s.begin), *scores = e.scores.at(s.begin);
    const A negative_slope = static_cast<A>(a.negative_slope);
    A *beta = e.beta.data, *weight = e.weight.data, *slope = e.slope.data;
    for (int64_t i = 0; i < n; ++i) {
      const A* record = records + a.out.node[s.begin + i] * 4 * heads;
      for (int64_t h = 0; h < heads; ++h) {
        const A x = el ? el[h] + record[h] : scores[i * heads + h];
        slope[i * heads + h] = !el || x > A(0) ? A(1) : negative_slope;
        weight[i * heads + h] = x * slope[i * heads + h] - record[heads + h];
      }
    }
    exp_all(weight, n * heads, beta);
    for (int64_t i = 0; i < n; ++i) {
      const A* inverse = records + a.out.node[s.begin + i] * 4 * heads + 2 * heads;
      for (int64_t h = 0; h < heads; ++h) {
        const A b = beta[i * heads + h] * inverse[h], gate = z[i * z_step + h * z_heads];
        beta[i * heads + h] = inverse[h] == A(0) ? A(0) : b > A(max_beta) ? A(max_beta) : b;
        weight[i * heads + h] = gate == A(0) ? A(0) : gate * beta[i * heads + h];
      }
    }
  }

  // After the sums: the edges' gradients, and grad_el [heads] of the segment.
  template <int fixed>
  static void finish_edges(const AttentionBackward& a, const Segment& s, Edges& e, A* grad_el) {
    const int64_t heads = fixed ? fixed : a.heads, n = s.end - s.begin;
    const A *records = static_cast<const A*>(a.records), *extra = e.grad_weights.at(s.begin);
    A *grad_z = e.grad_z.at(s.begin), *grad_scores = e.grad_scores.at(s.begin);
    for (int64_t h = 0; h < heads; ++h) grad_el[h] = A(0);
    for (int64_t i = 0; i < n; ++i) {
      const A* center = records + a.out.node[s.begin + i] * 4 * heads + 3 * heads;
      A total = 0;
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t k = i * heads + h;
        const A t = e.dots.data[k] + (a.grad_weights ? extra[k] : A(0)) - center[h];
        const A da = e.weight.data[k] * t * e.slope.data[k], dz = e.beta.data[k] * t;
        grad_scores[k] = da;
        grad_el[h] += da;
        total += dz;
        if (a.z_heads != 1) grad_z[k] = dz;
      }
      if (a.z_heads == 1) grad_z[i] = total;
    }
  }

  template <int fixed>
  static void backward_tasks(const AttentionBackward& a, void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    RowSums<V, Row, Mode::sum_dot> add(l, a.out, a.grad, a.grad_stride);
    const int64_t size = l.size + 2 * a.heads;
    Edges e(a);
    Buffer<A> own(l.size), total(size);
    const Row* h = static_cast<const Row*>(a.h);
    add.x.weights = e.weight.data, add.x.dots = e.dots.data, add.x.own = own.data;
    for_chunks(a.out, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      e.start(first, past);
      for_segments(a.out.ptr, a.out.rows, a.out.edges, first_task, past_task, [&](int64_t task, const Segment& s) {
        A* to = s.whole() ? total.data : static_cast<A*>(pieces) + s.piece(task) * size;
        if (s.begin < s.end) l.unpack(h + s.row * a.h_stride, own.data);
        weigh_again<fixed>(a, s, e);
        add.x.base = s.begin;
        add(s.begin, s.end, to);
        finish_edges<fixed>(a, s, e, to + l.size);
        if (s.whole()) store_grads(a, l, s.row, to);
      });
      e.grad_scores.scatter(past, a.grad_scores);
      if (a.grad_z) e.grad_z.scatter(past, a.grad_z);
    });
  }

  static void store_grads(const AttentionBackward& a, const Layout<V>& l, int64_t row, const A* total) {
    if (a.grad_h) l.pack(total, nullptr, static_cast<Row*>(a.grad_h) + row * a.heads * a.feats);
    if (a.grad_el) std::memcpy(static_cast<A*>(a.grad_el) + row * a.heads, total + l.size, a.heads * sizeof(A));
  }

  static void backward(const AttentionBackward& a, void* pieces, int64_t begin, int64_t end) {
    return a.heads == 1   ? backward_tasks<1>(a, pieces, begin, end)
           : a.heads == 4 ? backward_tasks<4>(a, pieces, begin, end)
           : a.heads == 8 ? backward_tasks<8>(a, pieces, begin, end)
                          : backward_tasks<0>(a, pieces, begin, end);
  }

  static void join_backward(const AttentionBackward& a, const void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    const int64_t size = l.size + 2 * a.heads;
    Buffer<A> total(size);
    for_shared_rows(a.out.ptr, a.out.rows, a.out.edges, begin, end, [&](int64_t row, int64_t task, int64_t last) {
      add_pieces(static_cast<const A*>(pieces), size, task, last, total.data);
      store_grads(a, l, row, total.data);
    });
  }

  // ---- GATv2's scores ----------------------------------------------------------------------------------------

  static void scores(const EdgeScoresForward& a, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    const RowSums<V, Row, Mode::slope> rows(l, a.in, a.p, a.p_stride);
    const Gather<V, Row>& x = rows.x;
    const int64_t lines = (a.heads * a.feats * static_cast<int64_t>(sizeof(Row)) + 63) / 64;
    const V negative_slope = V::splat(static_cast<A>(a.negative_slope));
    Buffer<A> own(l.size), w(l.size);
    ChunkNumbers<A> scores(a.in, a.heads, a.heads);
    l.unpack(static_cast<const A*>(a.w), w.data);
    for_chunks(a.in, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      scores.start(first, past);
      for_segments(a.in.ptr, a.in.rows, a.in.edges, first_task, past_task, [&](int64_t, const Segment& s) {
        if (s.begin < s.end) l.unpack(static_cast<const Row*>(a.q) + s.row * a.q_stride, own.data);
        for (int64_t i = s.begin; i < s.end; ++i) {
          const int64_t later = i + x.ahead < x.edges ? i + x.ahead : i;
          const char* next = reinterpret_cast<const char*>(x.rows + x.node[later] * x.stride);
          for (int64_t line = 0; line < lines; ++line) prefetch(next + 64 * line);
          for (int64_t h = 0; h < a.heads; ++h) {
            const Row* row = x.rows + x.node[i] * x.stride + h * a.feats;
            const A *q = own.data + h * l.per_head * V::width, *wh = w.data + h * l.per_head * V::width;
            V sum = V::splat(0);
            for (int64_t k = 0; k < a.feats; k += V::width) {
              const int64_t left = a.feats - k;
              const V p = left >= V::width ? V::load(row + k) : V::load(row + k, static_cast<int>(left));
              const V r = p + V::load(q + k);
              sum = V::select(r.positive(), r, r * negative_slope).fma(V::load(wh + k), sum);
            }
            scores.at(i)[h] = V::sum(sum);
          }
        }
      });
      scores.scatter(past, a.scores);
    });
  }

  // A row's sum of slopes is complete: its gradient is w times it, and its share of w's gradient a node-level product.
  static void store_score_row(const EdgeScoresBackward& a, const ScoreSide& side, const Layout<V>& l, int64_t row,
                              const A* sum, double* grad_w) {
    const Row* own = static_cast<const Row*>(side.own) + row * side.own_stride;
    Row* grad = static_cast<Row*>(side.grad) + row * a.heads * a.feats;
    const A* w = static_cast<const A*>(a.w);
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t k = 0; k < a.feats; ++k) {
        const int64_t column = h * a.feats + k;
        const A s = sum[h * l.per_head * V::width + k];
        grad[column] = static_cast<Row>(w[column] * s);
        const double term = (static_cast<double>(static_cast<A>(own[column])) + side.sign * side.center[column]) * s;
        grad_w[column] += s == A(0) ? 0.0 : term;  // an infinite entry without a gradient adds nothing
      }
  }

  static void scores_backward(const EdgeScoresBackward& a, const ScoreSide& side, void* pieces, double* grad_w,
                              int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    RowSums<V, Row, Mode::slope> add(l, side.side, side.other, side.other_stride);
    Buffer<A> own(l.size), sum(l.size);
    ChunkNumbers<A> grad(side.side, a.grad, a.heads, a.heads);
    add.x.negative_slope = static_cast<A>(a.negative_slope);
    add.x.own = own.data;
    for_chunks(side.side, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      grad.start(first, past);
      for_segments(side.side.ptr, side.side.rows, side.side.edges, first_task, past_task,
                   [&](int64_t task, const Segment& s) {
                     if (s.begin < s.end)
                       l.unpack(static_cast<const Row*>(side.own) + s.row * side.own_stride, own.data);
                     A* to = s.whole() ? sum.data : static_cast<A*>(pieces) + s.piece(task) * l.size;
                     add.x.weights = grad.at(s.begin), add.x.base = s.begin;
                     add(s.begin, s.end, to);
                     if (s.whole()) store_score_row(a, side, l, s.row, to, grad_w);
                   });
    });
  }

  static void join_scores(const EdgeScoresBackward& a, const ScoreSide& side, void* pieces, double* grad_w,
                          int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    Buffer<A> sum(l.size);
    for_shared_rows(side.side.ptr, side.side.rows, side.side.edges, begin, end,
                    [&](int64_t row, int64_t task, int64_t last) {
                      add_pieces(static_cast<const A*>(pieces), l.size, task, last, sum.data);
                      store_score_row(a, side, l, row, sum.data, grad_w);
                    });
  }

  static constexpr AttentionKernels table{piece_size, forward,       join_forward, edge_weights,    records,
                                          backward,   join_backward, scores,       scores_backward, join_scores};
};

}  // namespace

const AttentionKernels& attention(Dtype dtype) {
  switch (dtype) {
#if !defined(PTD_LEVEL_AVX512) && !defined(PTD_LEVEL_AVX2)
    case Dtype::f64:
      return Attention<Plain<double>, double>::table;
#endif
    case Dtype::bf16:
      return Attention<Vec, c10::BFloat16>::table;
    case Dtype::f16:
      return Attention<Vec, c10::Half>::table;
    default:
      return Attention<Vec, float>::table;
  }
}

}  // namespace dgl_ptdnet::PTD_LEVEL
