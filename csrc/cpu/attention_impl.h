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
  static constexpr A none = -std::numeric_limits<A>::infinity();  // the maximum where no edge is kept

  static Layout<V> layout(int64_t heads, int64_t feats) {
    return Layout<V>(heads, feats, static_cast<int64_t>(sizeof(Row)));
  }

  // A piece is a row's sum and two numbers for each head.
  static int64_t piece_size(int64_t heads, int64_t feats) { return layout(heads, feats).size + 2 * heads; }

  // The numbers of a segment's edges are stored by head, [heads, head_step], so that vectors hold numbers of one head.
  // head_step is no power of two: then all heads would map to the same places of the cache.
  static constexpr int64_t head_step = row_task_edges + V::width;

  // Copies x [n, heads] by head; by_edge does the reverse.
  static PTD_INLINE void by_head(const A* x, int64_t n, int64_t heads, A* out) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t h = 0; h < heads; ++h) out[h * head_step + i] = x[i * heads + h];
  }
  static PTD_INLINE void by_edge(const A* x, int64_t n, int64_t heads, A* out) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t h = 0; h < heads; ++h) out[i * heads + h] = x[h * head_step + i];
  }

  // Calls visit(first, count) for each vector of n numbers. In the last vector the gates beyond the last number are
  // loaded as 0, so the lanes there add 0 to sums, whatever the other arrays hold.
  template <class Visit>
  static PTD_INLINE void for_vectors(int64_t n, const Visit& visit) {
    for (int64_t i = 0; i < n; i += V::width) visit(i, static_cast<int>(n - i < V::width ? n - i : V::width));
  }

  // The gates of a segment, by head; one head if all heads share the gates.
  struct Gates {
    ChunkNumbers<A> z;
    Buffer<A> heads;

    template <class Args>
    Gates(const EdgeSide& side, const Args& a, int64_t stride)
        : z(side, a.z, a.z_heads, stride, a.heads), heads(a.z_heads * head_step) {}

    PTD_INLINE const A* of(const Segment& s) const {
      if (z.heads == 1) return z.at(s.begin);
      by_head(z.at(s.begin), s.end - s.begin, z.heads, heads.data);
      return heads.data;
    }
    PTD_INLINE int64_t step() const { return z.heads == 1 ? 0 : head_step; }
  };

  // ---- forward -----------------------------------------------------------------------------------------------

  // The scores of a destination's edges, by head.
  struct Scores {
    const Tile<AttentionForward>& a;
    ChunkNumbers<A> given;

    explicit Scores(const Tile<AttentionForward>& a_) : a(a_), given(a.in, a.scores, a.heads, a.row_heads, a.heads) {}

    PTD_INLINE void of(const Segment& s, A* score) const {
      const int64_t n = s.end - s.begin;
      if (a.scores) return by_head(given.at(s.begin), n, a.heads, score);
      const A *el = static_cast<const A*>(a.el), *er = static_cast<const A*>(a.er) + s.row * a.row_heads;
      const V negative_slope = V::splat(static_cast<A>(a.negative_slope));
      for (int64_t i = 0; i < n; ++i)
        for (int64_t h = 0; h < a.heads; ++h) score[h * head_step + i] = el[a.in.node[s.begin + i] * a.row_heads + h];
      for (int64_t h = 0; h < a.heads; ++h)
        for_vectors(n, [&](int64_t i, int) {
          const V x = V::load(score + h * head_step + i) + V::splat(er[h]);
          V::select(x.positive(), x, x * negative_slope).store(score + h * head_step + i);
        });
    }
  };

  // Replaces each score by z_e exp(a_e - max). max: the maximum of the kept scores; sum: the sum of the results.
  static PTD_INLINE void weigh(int64_t n, A* score, const A* z, A* max, A* sum) {
    V highest = V::splat(none), total = V::splat(0);
    for_vectors(n, [&](int64_t i, int count) {
      const V x = V::select(V::load(z + i, count).nonzero(), V::load(score + i), V::splat(none));
      highest = V::select(V::beats(x, highest), x, highest);
    });
    *max = V::max(highest);
    const V shift = V::splat(*max == none ? A(0) : -*max);
    for_vectors(n, [&](int64_t i, int count) {
      const V gate = V::load(z + i, count), e = (V::load(score + i) + shift).exp();
      const V weight = V::select(gate.nonzero(), gate * e, V::splat(0));  // the exponential may be infinite
      weight.store(score + i);
      total = total + weight;
    });
    *sum = V::sum(total);
  }

  // total: the row's sum, then max and sum of each head. Overwrites the sums with their inverses.
  static void store_row(const Tile<AttentionForward>& a, const Layout<V>& l, int64_t row, A* total) {
    A *max = total + l.size, *sum = max + a.heads;
    for (int64_t h = 0; h < a.heads; ++h) {
      static_cast<A*>(a.max)[row * a.row_heads + h] = max[h] == none ? A(0) : max[h];
      static_cast<A*>(a.sum)[row * a.row_heads + h] = sum[h];
      sum[h] = sum[h] == A(0) ? A(0) : A(1) / sum[h];
    }
    l.pack(total, sum, static_cast<Row*>(a.result) + row * a.row_width);
  }

  static void forward(const Tile<AttentionForward>& a, void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    RowSums<V, Row, Mode::sum> add(l, a.in, a.h, a.h_stride);
    const int64_t size = l.size + 2 * a.heads;
    Gates z(a.in, a, a.z_stride);
    Scores scores(a);
    Buffer<A> by_heads(a.heads * head_step), weights(row_task_edges * a.heads), total(size);
    add.x.weights = a.heads == 1 ? by_heads.data : weights.data;
    for_chunks(a.in, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      z.z.start(first, past), scores.given.start(first, past);
      for_segments(a.in, first_task, past_task, [&](int64_t task, const Segment& s) {
        A* to = s.whole() ? total.data : static_cast<A*>(pieces) + s.piece(task) * size;
        const A* gates = z.of(s);
        const int64_t n = s.end - s.begin;
        scores.of(s, by_heads.data);
        for (int64_t h = 0; h < a.heads; ++h)
          weigh(n, by_heads.data + h * head_step, gates + h * z.step(), to + l.size + h, to + l.size + a.heads + h);
        if (a.heads > 1) by_edge(by_heads.data, n, a.heads, weights.data);
        add.x.base = s.begin;
        add(s.begin, s.end, to);
        if (s.whole()) store_row(a, l, s.row, to);
      });
    });
  }

  static void join_forward(const Tile<AttentionForward>& a, const void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    const int64_t size = l.size + 2 * a.heads, head_size = l.per_head * V::width;
    Buffer<A> total(size);
    for_shared_rows(a.in, begin, end, [&](int64_t row, int64_t task, int64_t last) {
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
  static void edge_weights(const Tile<AttentionForward>& a, int64_t begin, int64_t end) {
    Gates z(a.in, a, a.z_stride);
    Scores scores(a);
    ChunkNumbers<A> weights(a.in, a.heads, a.row_heads, a.heads);
    Buffer<A> by_heads(a.heads * head_step);
    for_chunks(a.in, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      z.z.start(first, past), scores.given.start(first, past), weights.start(first, past);
      for_segments(a.in, first_task, past_task, [&](int64_t, const Segment& s) {
        const A* gates = z.of(s);
        const int64_t n = s.end - s.begin;
        scores.of(s, by_heads.data);
        for (int64_t h = 0; h < a.heads; ++h) {
          const A sum = static_cast<const A*>(a.sum)[s.row * a.row_heads + h];
          const V shift = V::splat(-static_cast<const A*>(a.max)[s.row * a.row_heads + h]);
          const V scale = V::splat(sum == A(0) ? A(0) : A(1) / sum);
          A* x = by_heads.data + h * head_step;
          for_vectors(n, [&](int64_t i, int count) {
            const V gate = V::load(gates + h * z.step() + i, count), e = (V::load(x + i) + shift).exp();
            V::select(gate.nonzero(), gate * e * scale, V::splat(0)).store(x + i);
          });
        }
        by_edge(by_heads.data, n, a.heads, weights.at(s.begin));
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
        const Row *x = result + row * a.heads * a.feats + h * a.feats, *g = grad + row * a.grad_stride + h * a.feats;
        V dot = V::splat(0);
        for_vectors(a.feats,
                    [&](int64_t k, int count) { dot = V::load(x + k, count).fma(V::load(g + k, count), dot); });
        const int64_t i = row * a.heads + h;
        record[h] = er ? er[i] : A(0);
        record[a.heads + h] = max[i];
        record[2 * a.heads + h] = sum[i] == A(0) ? A(0) : A(1) / sum[i];
        record[3 * a.heads + h] = V::sum(dot) + (shift ? shift[i] : A(0));
      }
    }
  }

  // Scratch for the edges of a segment (weigh fills it before the sums, finish uses the sums' results) and of a chunk.
  struct Edges {
    const AttentionBackward& a;
    Buffer<A> record;                   // the destinations' records, [4, heads, head_step]
    Buffer<A> beta, weight, slope, dz;  // by head
    Buffer<A> weights, dots, extra;     // by edge, by edge, by head
    Gates z;
    ChunkNumbers<A> scores, grad_weights, grad_z, grad_scores;

    explicit Edges(const AttentionBackward& a_)
        : a(a_),
          record(4 * a.heads * head_step),
          beta(a.heads * head_step),
          weight(a.heads * head_step),
          slope(a.heads * head_step),
          dz(a.heads * head_step),
          weights(a.heads * row_task_edges),
          dots(a.heads * row_task_edges),
          extra(a.heads * head_step),
          z(a.out, a, a.z_heads),
          scores(a.out, a.scores, a.heads, a.heads, a.heads),
          grad_weights(a.out, a.grad_weights, a.heads, a.heads, a.heads),
          grad_z(a.out, a.z_heads, a.z_heads, a.heads),
          grad_scores(a.out, a.heads, a.heads, a.heads) {}

    void start(int64_t first, int64_t past) {
      for (ChunkNumbers<A>* x : {&z.z, &scores, &grad_weights, &grad_z, &grad_scores}) x->start(first, past);
    }

    void scatter(int64_t past) const {
      grad_scores.scatter(past, a.grad_scores);
      if (a.grad_z) grad_z.scatter(past, a.grad_z);
    }

    // Computes beta, weight and slope of the segment's edges.
    void weigh(const Segment& s) const {
      const int64_t n = s.end - s.begin, size = 4 * a.heads, part = a.heads * head_step;
      const A *el = static_cast<const A*>(a.el), *records = static_cast<const A*>(a.records), *gates = z.of(s);
      for (int64_t i = 0; i < n; ++i) {
        prefetch(records + a.out.node[s.begin + i + 16 < a.out.edges ? s.begin + i + 16 : s.begin + i] * size);
        const A* from = records + a.out.node[s.begin + i] * size;
        for (int64_t k = 0; k < size; ++k) record.data[k * head_step + i] = from[k];
      }
      if (!el) by_head(scores.at(s.begin), n, a.heads, record.data);
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t first = h * head_step;
        const V own = V::splat(el ? el[s.row * a.heads + h] : A(0)), one = V::splat(1), cap = V::splat(A(max_beta));
        const V negative_slope = V::splat(el ? static_cast<A>(a.negative_slope) : A(1));
        const A* x = record.data + first;
        for_vectors(n, [&](int64_t i, int count) {
          const V score = V::load(x + i) + own, inverse = V::load(x + 2 * part + i);
          const V factor = V::select(score.positive(), one, negative_slope);
          const V e = V::load(x + part + i).fma(V::splat(-1), score * factor).exp();
          V b = V::select(inverse.nonzero(), e * inverse, V::splat(0));
          b = V::select((b + V::splat(-A(max_beta))).positive(), cap, b);
          const V gate = V::load(gates + h * z.step() + i, count);
          V::select(gate.nonzero(), gate * b, V::splat(0)).store(weight.data + first + i);
          factor.store(slope.data + first + i), b.store(beta.data + first + i);
        });
      }
      by_edge(weight.data, n, a.heads, weights.data);
    }

    // After the sums: makes the edges' gradients and the segment's grad_el [heads].
    void finish(const Segment& s, A* grad_el) const {
      const int64_t n = s.end - s.begin;
      const A* center = record.data + 3 * a.heads * head_step;
      A* dot = record.data;  // by head
      by_head(dots.data, n, a.heads, dot);
      if (a.grad_weights) by_head(grad_weights.at(s.begin), n, a.heads, extra.data);
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t first = h * head_step;
        A* to = dz.data + (a.z_heads == 1 ? 0 : first);
        V total = V::splat(0);
        for_vectors(n, [&](int64_t i, int count) {
          V t = V::load(center + first + i, count).fma(V::splat(-1), V::load(dot + first + i, count));
          if (a.grad_weights) t = t + V::load(extra.data + first + i, count);
          const V da = V::load(weight.data + first + i) * t * V::load(slope.data + first + i);
          const V more = V::load(beta.data + first + i) * t;
          (a.z_heads == 1 && h > 0 ? V::load(to + i) + more : more).store(to + i);
          da.store(slope.data + first + i);
          total = total + da;
        });
        grad_el[h] = V::sum(total);
      }
      by_edge(slope.data, n, a.heads, grad_scores.at(s.begin));
      by_edge(dz.data, n, a.z_heads, grad_z.at(s.begin));
    }
  };

  static void backward(const AttentionBackward& a, void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    RowSums<V, Row, Mode::sum_dot> add(l, a.out, a.grad, a.grad_stride);
    const int64_t size = l.size + 2 * a.heads;
    Edges e(a);
    Buffer<A> own(l.size), total(size);
    const Row* h = static_cast<const Row*>(a.h);
    add.x.weights = e.weights.data, add.x.dots = e.dots.data, add.x.own = own.data;
    for_chunks(a.out, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      e.start(first, past);
      for_segments(a.out, first_task, past_task, [&](int64_t task, const Segment& s) {
        A* to = s.whole() ? total.data : static_cast<A*>(pieces) + s.piece(task) * size;
        if (s.begin < s.end) l.unpack(h + s.row * a.h_stride, own.data);
        if (s.row + 1 < a.out.rows) l.fetch(h + (s.row + 1) * a.h_stride);
        e.weigh(s);
        add.x.base = s.begin;
        add(s.begin, s.end, to);
        e.finish(s, to + l.size);
        if (s.whole()) store_grads(a, l, s.row, to);
      });
      e.scatter(past);
    });
  }

  static void store_grads(const AttentionBackward& a, const Layout<V>& l, int64_t row, const A* total) {
    if (a.grad_h) l.pack(total, nullptr, static_cast<Row*>(a.grad_h) + row * a.heads * a.feats);
    if (a.grad_el) std::memcpy(static_cast<A*>(a.grad_el) + row * a.heads, total + l.size, a.heads * sizeof(A));
  }

  static void join_backward(const AttentionBackward& a, const void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    const int64_t size = l.size + 2 * a.heads;
    Buffer<A> total(size);
    for_shared_rows(a.out, begin, end, [&](int64_t row, int64_t task, int64_t last) {
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
    ChunkNumbers<A> scores(a.in, a.heads, a.heads, a.heads);
    l.unpack(static_cast<const A*>(a.w), w.data);
    for_chunks(a.in, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      scores.start(first, past);
      for_segments(a.in, first_task, past_task, [&](int64_t, const Segment& s) {
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

  // Call it once a row's sum of slopes is complete: the row's gradient is w times the sum, and the row adds the product
  // of its own numbers and the sum to w's gradient.
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
        grad_w[column] += s == A(0) ? 0.0 : term;  // an infinite number whose gradient is 0 adds nothing
      }
  }

  static void scores_backward(const EdgeScoresBackward& a, const ScoreSide& side, void* pieces, double* grad_w,
                              int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    RowSums<V, Row, Mode::slope> add(l, side.side, side.other, side.other_stride);
    Buffer<A> own(l.size), sum(l.size);
    ChunkNumbers<A> grad(side.side, a.grad, a.heads, a.heads, a.heads);
    add.x.negative_slope = static_cast<A>(a.negative_slope);
    add.x.own = own.data;
    for_chunks(side.side, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      grad.start(first, past);
      for_segments(side.side, first_task, past_task, [&](int64_t task, const Segment& s) {
        if (s.begin < s.end) l.unpack(static_cast<const Row*>(side.own) + s.row * side.own_stride, own.data);
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
    for_shared_rows(side.side, begin, end, [&](int64_t row, int64_t task, int64_t last) {
      add_pieces(static_cast<const A*>(pieces), l.size, task, last, sum.data);
      store_score_row(a, side, l, row, sum.data, grad_w);
    });
  }

  static constexpr AttentionKernels table{piece_size, forward,       join_forward, edge_weights,    records,
                                          backward,   join_backward, scores,       scores_backward, join_scores};
};

}  // namespace

const AttentionKernels& attention_kernels(Dtype dtype) { return table_for<Attention>(dtype); }

}  // namespace dgl_ptdnet::PTD_LEVEL
