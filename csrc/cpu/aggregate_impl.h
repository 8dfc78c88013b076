// aggregate and maximum on a CPU, for the level that the including file chose.
#pragma once

#include "aggregate_kernels.h"
#include "rows.h"

namespace dgl_ptdnet::PTD_LEVEL {
namespace {

template <class V, class Row>
struct Aggregate {
  using A = typename V::Acc;

  static Layout<V> layout(int64_t heads, int64_t feats) {
    return Layout<V>(heads, feats, static_cast<int64_t>(sizeof(Row)));
  }

  static int64_t piece_size(int64_t heads, int64_t feats) { return layout(heads, feats).size; }

  static void forward(const Tile<AggregateForward>& a, void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    RowSums<V, Row, Mode::sum> add(l, a.side, a.h, a.h_stride);
    ChunkNumbers<A> z(a.side, a.z, a.heads, a.z_stride, a.heads);
    Buffer<A> sum(l.size);
    Row* out = static_cast<Row*>(a.out);
    for_chunks(a.side, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      z.start(first, past);
      for_segments(a.side, first_task, past_task, [&](int64_t task, const Segment& s) {
        add.x.weights = z.at(s.begin), add.x.base = s.begin;
        add(s.begin, s.end, s.whole() ? sum.data : static_cast<A*>(pieces) + s.piece(task) * l.size);
        if (s.whole()) l.pack(sum.data, nullptr, out + s.row * a.row_width);
      });
    });
  }

  static void join_rows(const EdgeSide& side, const Layout<V>& l, const void* pieces, void* out, int64_t stride,
                        int64_t begin, int64_t end) {
    Buffer<A> sum(l.size);
    for_shared_rows(side, begin, end, [&](int64_t row, int64_t task, int64_t last) {
      add_pieces(static_cast<const A*>(pieces), l.size, task, last, sum.data);
      l.pack(sum.data, nullptr, static_cast<Row*>(out) + row * stride);
    });
  }

  static void join_forward(const Tile<AggregateForward>& a, const void* pieces, int64_t begin, int64_t end) {
    join_rows(a.side, layout(a.heads, a.feats), pieces, a.out, a.row_width, begin, end);
  }

  template <Mode mode>
  static void backward_tasks(const AggregateBackward& a, void* pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(a.heads, a.feats);
    RowSums<V, Row, mode> add(l, a.side, a.grad, a.grad_stride);
    ChunkNumbers<A> z(a.side, a.z, a.heads, a.heads, a.heads), dots(a.side, a.heads, a.heads, a.heads);
    Buffer<A> sum(l.size), own(l.size);
    const Row* h = static_cast<const Row*>(a.h);
    Row* grad_h = static_cast<Row*>(a.grad_h);
    add.x.own = own.data, add.x.arg = a.arg, add.x.arg_stride = a.feats;
    for_chunks(a.side, a.heads, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      z.start(first, past), dots.start(first, past);
      for_segments(a.side, first_task, past_task, [&](int64_t task, const Segment& s) {
        add.x.weights = z.at(s.begin), add.x.dots = dots.at(s.begin), add.x.base = s.begin;
        if (a.grad_z && s.begin < s.end) l.unpack(h + s.row * a.h_stride, own.data);
        if (a.grad_z && s.row + 1 < a.side.rows) l.fetch(h + (s.row + 1) * a.h_stride);
        add(s.begin, s.end, s.whole() ? sum.data : static_cast<A*>(pieces) + s.piece(task) * l.size);
        if (s.whole() && grad_h) l.pack(sum.data, nullptr, grad_h + s.row * a.heads * a.feats);
      });
      if (a.grad_z) dots.scatter(past, a.grad_z);
    });
  }

  static void backward(const AggregateBackward& a, void* pieces, int64_t begin, int64_t end) {
    if (a.arg && a.grad_z) return backward_tasks<Mode::max_dot>(a, pieces, begin, end);
    if (a.arg) return backward_tasks<Mode::max>(a, pieces, begin, end);
    if (a.grad_z) return backward_tasks<Mode::sum_dot>(a, pieces, begin, end);
    backward_tasks<Mode::sum>(a, pieces, begin, end);
  }

  static void join_backward(const AggregateBackward& a, const void* pieces, int64_t begin, int64_t end) {
    if (a.grad_h) join_rows(a.side, layout(a.heads, a.feats), pieces, a.grad_h, a.heads * a.feats, begin, end);
  }

  // ---- maximum -----------------------------------------------------------------------------------------------

  // best and arg [size]: the maximum over the kept edges of [begin, end) and the edge that it came from, of equal ones
  // the first. Where no edge is kept, best is 0 and arg -1.
  template <int count>
  static void max_rows(const Gather<V, Row>& x, const Group& g, int64_t begin, int64_t end, A* best, int32_t* arg) {
    V value[count];
    Ints from[count];
#pragma GCC unroll 16
    for (int k = 0; k < count; ++k) value[k] = V::splat(0), from[k] = Ints::splat(static_cast<uint32_t>(-1));
    const int64_t last = x.edges - 1;
    uint32_t first = ~0u;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t later = i + x.ahead < last ? i + x.ahead : last;
      const char* next = reinterpret_cast<const char*>(x.rows + x.node[later] * x.stride + g.offset[0]);
      for (int line = 0; line < g.lines; ++line) prefetch(next + 64 * line);
      const A w = x.weights[i - x.base];
      if (w <= A(0)) continue;
      const Row* row = x.rows + x.node[i] * x.stride + g.offset[0];
      const Ints edge = Ints::splat(static_cast<uint32_t>(x.edge[i]));
#pragma GCC unroll 16
      for (int k = 0; k < count; ++k) {
        const V r =
            (k == count - 1 ? V::load(row + k * V::width, g.lanes[k]) : V::load(row + k * V::width)) * V::splat(w);
        const uint32_t bits = V::beats(r, value[k]) | first;
        value[k] = V::select(bits, r, value[k]);
        from[k] = Ints::select(bits, edge, from[k]);
      }
      first = 0;
    }
    best += g.first * V::width, arg += g.first * V::width;
#pragma GCC unroll 16
    for (int k = 0; k < count; ++k) {
      value[k].store(best + k * V::width);
      from[k].store(arg + k * V::width, V::width);
    }
  }

  static void max_group(const Gather<V, Row>& x, const Group& g, int64_t begin, int64_t end, A* best, int32_t* arg) {
#define PTD_MAX(n) max_rows<n <= group_vectors ? n : group_vectors>
    static constexpr decltype(&max_rows<1>) functions[] = {PTD_MAX(1), PTD_MAX(2), PTD_MAX(3), PTD_MAX(4),
                                                           PTD_MAX(5), PTD_MAX(6), PTD_MAX(7), PTD_MAX(8)};
#undef PTD_MAX
    (g.count > 8 ? max_rows<group_vectors> : functions[g.count - 1])(x, g, begin, end, best, arg);
  }

  static void store_maximum(const MaximumForward& a, const Layout<V>& l, const A* best, const int32_t* arg,
                            int64_t row) {
    l.pack(best, nullptr, static_cast<Row*>(a.out) + row * a.feats);
    std::memcpy(a.arg + row * a.feats, arg, a.feats * sizeof(int32_t));
  }

  static void maximum(const MaximumForward& a, void* pieces, int32_t* arg_pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(1, a.feats);
    RowSums<V, Row, Mode::sum> rows(l, a.side, a.h, a.h_stride);
    ChunkNumbers<A> z(a.side, a.z, 1, 1, 1);
    Buffer<A> best(l.size);
    Buffer<int32_t> arg(l.size);
    for_chunks(a.side, 1, begin, end, [&](int64_t first_task, int64_t past_task, int64_t first, int64_t past) {
      z.start(first, past);
      for_segments(a.side, first_task, past_task, [&](int64_t task, const Segment& s) {
        rows.x.weights = z.at(s.begin), rows.x.base = s.begin;
        const int64_t place = s.piece(task) * l.size;
        A* to = s.whole() ? best.data : static_cast<A*>(pieces) + place;
        int32_t* from = s.whole() ? arg.data : arg_pieces + place;
        for (int64_t i = 0; i < l.count; ++i) max_group(rows.x, l.groups.data[i], s.begin, s.end, to, from);
        if (s.whole()) store_maximum(a, l, to, from, s.row);
      });
    });
  }

  static void join_maximum(const MaximumForward& a, void* pieces, int32_t* arg_pieces, int64_t begin, int64_t end) {
    const Layout<V> l = layout(1, a.feats);
    for_shared_rows(a.side, begin, end, [&](int64_t row, int64_t task, int64_t last) {
      const int64_t place = (2 * task + 1) * l.size;
      A* best = static_cast<A*>(pieces) + place;
      int32_t* arg = arg_pieces + place;
      for (int64_t later = task + 1; later <= last; ++later) {
        const A* other = static_cast<const A*>(pieces) + 2 * later * l.size;
        const int32_t* other_arg = arg_pieces + 2 * later * l.size;
        if (other_arg[0] < 0) continue;
        for (int64_t k = 0; k < l.size; ++k)
          if (arg[k] < 0 || (!(other[k] <= best[k]) && best[k] == best[k])) best[k] = other[k], arg[k] = other_arg[k];
      }
      store_maximum(a, l, best, arg, row);
    });
  }

  static constexpr AggregateKernels table{piece_size,    forward, join_forward, backward,
                                          join_backward, maximum, join_maximum};
};

}  // namespace

const AggregateKernels& aggregate_kernels(Dtype dtype) { return table_for<Aggregate>(dtype); }

}  // namespace dgl_ptdnet::PTD_LEVEL
