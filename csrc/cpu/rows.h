// Sums over gathered rows: the loop that aggregate, maximum and attention share, for the level that the including file
// chose. The sums of a row stay in registers; rows that are too wide for that are summed in groups of columns.
#pragma once

#include "tasks.h"
#include "vec.h"

namespace dgl_ptdnet::PTD_LEVEL {
namespace {

// Maximum number of vectors in a group; groups of 1 to 8 have loops of their own.
#if defined(PTD_LEVEL_AVX512)
constexpr int group_vectors = 16;
#elif defined(PTD_LEVEL_AVX2)
constexpr int group_vectors = 8;
#else
constexpr int group_vectors = 4;
#endif

// The number that each edge adds to its row's sum: x is the row of the edge's other end, w the edge's weight.
enum class Mode {
  sum,      // w x
  sum_dot,  // w x; also makes the dot product <own, x>
  slope,    // w where own + x > 0, negative_slope w elsewhere
  max,      // as sum, but only in the columns whose maximum came from this edge
  max_dot   // as sum_dot, in the same columns as max
};

// How heads lie in a group: n whole vectors a head, or one head with a partly empty last vector, or any length, by
// tables.
constexpr int one_head = 16, any_heads = 0;

// A group of columns. Each head starts a new vector, so `offset`, a vector's place in a row, is not its place in the
// sums.
struct Group {
  int64_t first;  // number of its first vector
  int count, lines;
  int32_t offset[group_vectors], lanes[group_vectors], head[group_vectors];
  bool last[group_vectors];  // whether it is the last vector of its head in this group
  bool adds[group_vectors];  // whether its head began in an earlier group, whose dot product it adds to
};

template <class V, class Row>
struct Gather {
  using A = typename V::Acc;
  const Row* rows;
  int64_t stride;
  const int32_t* node;
  int64_t edges, ahead, heads;
  const A* weights;  // [.., heads], starting at edge `base`
  A* dots;           // [.., heads], starting at edge `base`
  int64_t base;
  const A* own;  // [vectors * width] the current row
  // for max and max_dot
  const int32_t *arg, *edge;
  int64_t arg_stride;
  A negative_slope;  // for slope
};

template <class V, class Row, Mode mode, int per_head, int count>
void add_rows(const Gather<V, Row>& x, const Group& g, int64_t begin, int64_t end, typename V::Acc* sum) {
  using A = typename V::Acc;
  constexpr bool dots = mode == Mode::sum_dot || mode == Mode::max_dot;
  constexpr bool of_max = mode == Mode::max || mode == Mode::max_dot;
  constexpr int lines = (count * V::width * static_cast<int>(sizeof(Row)) + 63) / 64;
  const int64_t last = x.edges - 1, heads = per_head == one_head ? 1 : x.heads, stride = x.stride, ahead = x.ahead;
  const int32_t* node = x.node;
  const int tail = g.lanes[count - 1];
  const A* own = mode == Mode::sum || mode == Mode::max ? nullptr : x.own + g.first * V::width;
  const A* w = x.weights + (begin - x.base) * heads;
  A* dot_out = dots ? x.dots + (begin - x.base) * heads : nullptr;
  const Row* rows = x.rows;
  if constexpr (per_head != any_heads) rows += g.offset[0], w += g.head[0];
  if constexpr (per_head != any_heads && dots) dot_out += g.head[0];
  V acc[count];  // every loop over it must be unrolled, else the compiler keeps it in memory
#pragma GCC unroll 16
  for (int k = 0; k < count; ++k) acc[k] = V::splat(0);
  for (int64_t i = begin; i < end; ++i, w += heads) {
    const int64_t later = i + ahead < last ? i + ahead : last;
    const char* next = reinterpret_cast<const char*>(rows + node[later] * stride);
    if constexpr (per_head == any_heads) {
      next += g.offset[0] * sizeof(Row);
      for (int line = 0; line < g.lines; ++line) prefetch(next + 64 * line);
    } else {
#pragma GCC unroll 16
      for (int line = 0; line < lines; ++line) prefetch(next + 64 * line);
    }
    const Row* row = rows + node[i] * stride;
    const int32_t* arg = nullptr;
    if constexpr (of_max) arg = x.arg + node[i] * x.arg_stride + g.offset[0];
    V wk = V::splat(w[0]), dot[2] = {V::splat(0), V::splat(0)};
#pragma GCC unroll 16
    for (int k = 0; k < count; ++k) {
      if constexpr (per_head == any_heads) {
        wk = V::splat(w[g.head[k]]);
      } else if (k > 0 && k % per_head == 0) {
        wk = V::splat(w[k / per_head]);
      }
      const V r = per_head == any_heads                    ? V::load(row + g.offset[k], g.lanes[k])
                  : per_head == one_head && k == count - 1 ? V::load(row + k * V::width, tail)
                                                           : V::load(row + k * V::width);
      V part = dots ? r.pinned() : r;
      if constexpr (of_max) {
        const Ints edge = Ints::splat(static_cast<uint32_t>(x.edge[i]));
        part = V::select(Ints::load(arg + k * V::width, k == count - 1 ? tail : V::width).equal(edge), r, V::splat(0));
      }
      if constexpr (mode == Mode::slope) {
        const uint32_t bits = (r + V::load(own + k * V::width)).positive();
        acc[k] = acc[k] + V::select(bits, wk, wk * V::splat(x.negative_slope));
      } else {
        acc[k] = part.fma(wk, acc[k]);
      }
      if constexpr (dots) {
        dot[k % 2] = part.fma(V::load(own + k * V::width), dot[k % 2]);
        if (per_head == any_heads ? g.last[k] : (k + 1) % per_head == 0 || k == count - 1) {
          A& out = dot_out[per_head == any_heads ? g.head[k] : k / per_head];
          const A found = V::sum(dot[0] + dot[1]);
          out = g.adds[k] ? out + found : found;
          dot[0] = dot[1] = V::splat(0);
        }
      }
    }
    if constexpr (dots) dot_out += heads;
  }
  sum += g.first * V::width;
#pragma GCC unroll 16
  for (int k = 0; k < count; ++k) acc[k].store(sum + k * V::width);
}

template <class V, class Row>
using AddRows = void (*)(const Gather<V, Row>&, const Group&, int64_t, int64_t, typename V::Acc*);

// The loop for groups of `count` vectors.
template <class V, class Row, Mode mode>
AddRows<V, Row> choose_add(int64_t per_head, int count) {
#define PTD_ADD(per, n) add_rows<V, Row, mode, per, n <= group_vectors ? n : group_vectors>
#define PTD_ADDS(per)                                                                                     \
  {                                                                                                       \
    PTD_ADD(per, 1), PTD_ADD(per, 2), PTD_ADD(per, 3), PTD_ADD(per, 4), PTD_ADD(per, 5), PTD_ADD(per, 6), \
        PTD_ADD(per, 7), PTD_ADD(per, 8), PTD_ADD(per, 16)                                                \
  }
  static constexpr AddRows<V, Row> one[] = PTD_ADDS(one_head), any[] = PTD_ADDS(any_heads);
  const int place = count > 8 ? 8 : count - 1;
  if (per_head == one_head) return one[place];
  if constexpr (mode == Mode::sum || mode == Mode::sum_dot) {
    if (count == group_vectors && per_head == 1) return PTD_ADD(1, group_vectors);
    if (count == group_vectors && per_head == 2) return PTD_ADD(2, group_vectors);
    if (count == group_vectors && per_head == 4) return PTD_ADD(4, group_vectors);
    if (count == group_vectors && per_head == 8 && group_vectors >= 8) return PTD_ADD(8, group_vectors);
    if (count == 8 && per_head == 1) return PTD_ADD(1, 8);
    if (count == 8 && per_head == 2) return PTD_ADD(2, 8);
    if (count == 8 && per_head == 4) return PTD_ADD(4, 8);
  }
#undef PTD_ADDS
#undef PTD_ADD
  return any[place];
}

// Divides a row of heads x feats numbers into vectors, and these into groups.
template <class V>
struct Layout {
  using A = typename V::Acc;
  int64_t heads, feats, per_head, vectors, size, count = 0;
  Buffer<Group> groups;

  Layout(int64_t heads_, int64_t feats_, int64_t element_bytes)
      : heads(heads_),
        feats(feats_),
        per_head((feats + V::width - 1) / V::width),
        vectors(heads * per_head),
        size(vectors * V::width),
        groups(vectors) {
    for (int64_t first = 0; first < vectors; first += groups.data[count++].count) {
      const int64_t left = vectors - first;
      Group& g = groups.data[count];
      g.first = first;
      g.count = static_cast<int>(left >= group_vectors ? group_vectors : left < 8 ? left : 8);
      for (int k = 0; k < g.count; ++k) {
        const int64_t head = (first + k) / per_head, column = (first + k) % per_head * V::width;
        g.offset[k] = static_cast<int32_t>(head * feats + column);
        g.lanes[k] = static_cast<int32_t>(feats - column < V::width ? feats - column : V::width);
        g.head[k] = static_cast<int32_t>(head);
        g.last[k] = k + 1 == g.count || (first + k + 1) % per_head == 0;
        g.adds[k] = head * per_head < first;
      }
      const int64_t bytes = element_bytes * (g.offset[g.count - 1] - g.offset[0] + g.lanes[g.count - 1]);
      g.lines = static_cast<int>((bytes + 63) / 64);
    }
  }

  template <Mode mode, class Row>
  AddRows<V, Row> add(int vectors_of_group) const {
    const int64_t per = heads == 1 ? one_head : feats % V::width == 0 && per_head <= 8 ? per_head : any_heads;
    return choose_add<V, Row, mode>(per, vectors_of_group);
  }

  // Prefetches a row that will be unpacked soon.
  template <class Row>
  PTD_INLINE void fetch(const Row* row) const {
    for (int64_t k = 0; k < heads * feats * static_cast<int64_t>(sizeof(Row)); k += 64)
      prefetch(reinterpret_cast<const char*>(row) + k);
  }

  // Copies a row to the layout of the sums; empty lanes become 0.
  template <class Row>
  PTD_INLINE void unpack(const Row* row, A* out) const {
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t k = 0; k < per_head; ++k, out += V::width) {
        const int64_t column = k * V::width, left = feats - column;
        (left >= V::width ? V::load(row + head * feats + column)
                          : V::load(row + head * feats + column, static_cast<int>(left)))
            .store(out);
      }
  }

  // Copies a row of sums to the layout of rows; each head is multiplied by its scale, or by 1 if scale is null.
  template <class Row>
  PTD_INLINE void pack(const A* sum, const A* scale, Row* out) const {
    for (int64_t head = 0; head < heads; ++head) {
      const V s = V::splat(scale ? scale[head] : A(1));
      for (int64_t k = 0; k < per_head; ++k, sum += V::width) {
        const int64_t column = k * V::width, left = feats - column;
        (V::load(sum) * s).store(out + head * feats + column, static_cast<int>(left < V::width ? left : V::width));
      }
    }
  }
};

// Sums the rows of the edges' other ends.
template <class V, class Row, Mode mode>
struct RowSums {
  using A = typename V::Acc;
  const Layout<V>& layout;
  Gather<V, Row> x{};
  Buffer<AddRows<V, Row>> adds;

  RowSums(const Layout<V>& l, const EdgeSide& side, const void* rows, int64_t stride) : layout(l), adds(l.count) {
    x.rows = static_cast<const Row*>(rows);
    x.stride = stride;
    x.node = side.node;
    x.edge = side.edge;
    x.edges = side.edges;
    x.heads = l.heads;
    const int64_t bytes = l.heads * l.feats * static_cast<int64_t>(sizeof(Row)), ahead = 6144 / bytes;
    x.ahead = ahead < 4 ? 4 : ahead > 32 ? 32 : ahead;
    for (int64_t i = 0; i < l.count; ++i) adds.data[i] = l.template add<mode, Row>(l.groups.data[i].count);
  }

  // sum [layout.size]: the sum over edges [begin, end).
  PTD_INLINE void operator()(int64_t begin, int64_t end, A* sum) const {
    for (int64_t i = 0; i < layout.count; ++i) adds.data[i](x, layout.groups.data[i], begin, end, sum);
  }
};

// The edges' numbers are moved from the caller's order to that of a side, and back, for a chunk of many tasks at once.
// To do it task by task takes several times as long, because the rows evict the numbers from the caches.
PTD_INLINE int64_t chunk_tasks(int64_t heads) { return heads < 64 ? 512 / heads : 8; }

// Calls run(first task, past task, first edge, past edge) for chunks of tasks [begin, end).
template <class Run>
PTD_INLINE void for_chunks(const EdgeSide& side, int64_t heads, int64_t begin, int64_t end, const Run& run) {
  for (int64_t task = begin; task < end; task += chunk_tasks(heads)) {
    const int64_t past_task = task + chunk_tasks(heads) < end ? task + chunk_tasks(heads) : end;
    const int64_t first = task * row_task_edges, past = past_task * row_task_edges;
    run(task, past_task, first, past < side.edges ? past : side.edges);
  }
}

// The numbers of a chunk's edges, [edges, heads], in the order of the side.
template <class A>
struct ChunkNumbers {
  const EdgeSide& side;
  const A* values;  // the caller's numbers, with `stride` between edges; or null, then all numbers are 1
  int64_t heads, stride;
  bool chunk;  // whether data holds a whole chunk; else it holds the ones of a task
  int64_t first = 0;
  Buffer<A> data;

  // For reading; max_heads is the number of heads that sets the length of chunks.
  ChunkNumbers(const EdgeSide& side_, const void* values_, int64_t heads_, int64_t stride_, int64_t max_heads)
      : side(side_),
        values(static_cast<const A*>(values_)),
        heads(heads_),
        stride(stride_),
        chunk(values),
        data((chunk ? chunk_tasks(max_heads) : 1) * row_task_edges * heads) {
    for (int64_t i = 0; !chunk && i < row_task_edges * heads; ++i) data.data[i] = A(1);
  }
  // For writing.
  ChunkNumbers(const EdgeSide& side_, int64_t heads_, int64_t stride_, int64_t max_heads)
      : side(side_),
        values(nullptr),
        heads(heads_),
        stride(stride_),
        chunk(true),
        data(chunk_tasks(max_heads) * row_task_edges * heads) {}

  PTD_INLINE A* at(int64_t edge) const { return chunk ? data.data + (edge - first) * heads : data.data; }

  void start(int64_t begin, int64_t past) {
    first = begin;
    if (!values) return;
    heads == 1   ? gather_as<1>(past)
    : heads == 2 ? gather_as<2>(past)
    : heads == 4 ? gather_as<4>(past)
                 : gather_as<0>(past);
  }

  // Copies the chunk's numbers to `to`, in the caller's order.
  void scatter(int64_t past, void* to) const {
    A* out = static_cast<A*>(to);
    heads == 1   ? scatter_as<1>(past, out)
    : heads == 2 ? scatter_as<2>(past, out)
    : heads == 4 ? scatter_as<4>(past, out)
                 : scatter_as<0>(past, out);
  }

 private:
  static constexpr int64_t ahead = 32;

  PTD_INLINE int64_t later(int64_t i, int64_t past) const { return side.edge[i + ahead < past ? i + ahead : past - 1]; }

  template <int fixed>
  void gather_as(int64_t past) {
    const int64_t n = fixed ? fixed : heads;
    A* out = data.data;
    for (int64_t i = first; i < past; ++i, out += n) {
      prefetch(values + later(i, past) * stride);
      const A* from = values + side.edge[i] * stride;
      for (int64_t h = 0; h < n; ++h) out[h] = from[h];
    }
  }

  template <int fixed>
  void scatter_as(int64_t past, A* out) const {
    const int64_t n = fixed ? fixed : heads;
    const A* in = data.data;
    for (int64_t i = first; i < past; ++i, in += n) {
      __builtin_prefetch(out + later(i, past) * stride, 1, 3);
      A* to = out + side.edge[i] * stride;
      for (int64_t h = 0; h < n; ++h) to[h] = in[h];
    }
  }
};

}  // namespace
}  // namespace dgl_ptdnet::PTD_LEVEL
