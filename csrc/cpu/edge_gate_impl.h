// The edge gate on a CPU, for the level that the including file chose.
#pragma once

#include <type_traits>

#include "edge_gate_kernels.h"
#include "tasks.h"
#include "vec.h"

namespace dgl_ptdnet::PTD_LEVEL {
namespace {

constexpr int block = 64;  // number of edges whose noise is drawn together

// The number of 64-byte cache lines of a row of n elements that starts at a line.
template <class Row>
PTD_INLINE int64_t row_lines(int64_t n) {
  return (n * static_cast<int64_t>(sizeof(Row)) + 63) / 64;
}

// x[l][j]: output l of Philox for counter j of sixteen.
PTD_INLINE void philox16(const uint32_t* low, const uint32_t* high, uint64_t seed, uint64_t offset, uint32_t (*x)[16]) {
  for (int j = 0; j < 16; j += Ints::width) {
    Ints c0 = Ints::load(low + j), c1 = Ints::load(high + j);
    Ints c2 = Ints::splat(static_cast<uint32_t>(offset)), c3 = Ints::splat(static_cast<uint32_t>(offset >> 32));
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      Ints a_high, a_low, b_high, b_low;
      c0.multiply(0xD2511F53u, a_high, a_low);
      c2.multiply(0xCD9E8D57u, b_high, b_low);
      c0 = b_high ^ c1 ^ Ints::splat(k0);
      c2 = a_high ^ c3 ^ Ints::splat(k1);
      c1 = b_low;
      c3 = a_low;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    c0.store(x[0] + j);
    c1.store(x[1] + j);
    c2.store(x[2] + j);
    c3.store(x[3] + j);
  }
}

// The upper 23 bits of the draws of edges [first, first + n) in the caller's order, n <= 64; `first` is a multiple
// of 64. Without edge ids, sixteen counters give the draws of 64 edges.
PTD_INLINE void draw(const EdgeGateForward& a, int64_t first, int n, uint32_t* bits) {
  const uint64_t seed = static_cast<uint64_t>(a.noise[0]), offset = static_cast<uint64_t>(a.noise[1]);
  alignas(64) uint32_t low[16], high[16], x[4][16];
  if (!a.edge_ids) {
    for (int j = 0; j < 16; ++j) low[j] = static_cast<uint32_t>(first / 4 + j), high[j] = 0;
    philox16(low, high, seed, offset, x);
    for (int j = 0; j < 16; ++j)
      for (int l = 0; l < 4; ++l) bits[4 * j + l] = x[l][j] >> 9;
    return;
  }
  for (int k = 0; k < n; k += 16) {
    alignas(64) uint32_t lane[16];
    for (int j = 0; j < 16; ++j) {
      const uint64_t id = static_cast<uint64_t>(a.edge_ids[first + (k + j < n ? k + j : n - 1)]);
      low[j] = static_cast<uint32_t>(id >> 2), high[j] = static_cast<uint32_t>(id >> 34), lane[j] = id & 3;
    }
    philox16(low, high, seed, offset, x);
    for (int j = 0; j < 16; ++j) {
      const uint32_t odd = lane[j] & 1, upper = lane[j] & 2;
      const uint32_t lower_pair = odd ? x[1][j] : x[0][j], upper_pair = odd ? x[3][j] : x[2][j];
      bits[k + j] = (upper ? upper_pair : lower_pair) >> 9;
    }
  }
}

template <class V, class Row, bool leaky>
struct Logits {
  using A = typename V::Acc;
  const EdgeGateForward& a;
  const Row *p, *q;
  const A* w;
  V negative_slope;
  int64_t lines, ahead, bytes;

  explicit Logits(const EdgeGateForward& args)
      : a(args),
        p(static_cast<const Row*>(args.p)),
        q(static_cast<const Row*>(args.q)),
        w(static_cast<const A*>(args.w)),
        negative_slope(V::splat(static_cast<A>(args.options.negative_slope))),
        lines(row_lines<Row>(args.hidden)),
        bytes(mask_bytes(args.hidden)) {
    ahead = 1024 / args.hidden;  // about 4 KB
    ahead = ahead < 8 ? 8 : ahead > 32 ? 32 : ahead;
  }

  PTD_INLINE V activate(V x, uint32_t bits) const {
    if constexpr (leaky) return V::select(bits, x, x * negative_slope);
    return x.relu();
  }

  // Adds columns [k, k + width), or the last n columns of a row, to the sums of four edges.
  template <bool whole, bool masked>
  PTD_INLINE void columns(const Row* const* ps, const Row* const* qs, int64_t k, int n, uint8_t* const* masks,
                          V* sum) const {
    const V wk = whole ? V::load(w + k) : V::load(w + k, n);
    for (int j = 0; j < 4; ++j) {
      const V x = whole ? V::load(ps[j] + k) + V::load(qs[j] + k) : V::load(ps[j] + k, n) + V::load(qs[j] + k, n);
      const uint32_t bits = leaky || masked ? x.positive() : 0;
      if (masked) {
        if (V::width == 16 && (whole || n > 8)) {
          const uint16_t both = static_cast<uint16_t>(bits);
          std::memcpy(masks[j] + k / 8, &both, 2);
        } else {
          masks[j][k / 8] = static_cast<uint8_t>(bits);
        }
      }
      sum[j] = activate(x, bits).fma(wk, sum[j]);
    }
  }

  // The sums of the V::width positions from i on; positions past `last` repeat it. `inside`: no position is past
  // `last`, and each has a later row to prefetch. With a `fixed` H the compiler unrolls the loop.
  template <int fixed, bool masked, bool inside>
  PTD_INLINE V group(int64_t i, int64_t last) const {
    const int64_t h = fixed ? fixed : a.hidden, prefetched = fixed ? row_lines<Row>(fixed) : lines;
    V sum[V::width];
    for (int g = 0; g < V::width; g += 4) {
      const Row *ps[4], *qs[4];
      uint8_t* masks[4];
      for (int j = 0; j < 4; ++j) {
        const int64_t here = inside || i + g + j <= last ? i + g + j : last;
        ps[j] = p + a.index.in_src[here] * a.p_stride;
        qs[j] = q + a.index.in_dst[here] * a.q_stride;
        masks[j] = a.mask + here * (fixed ? (fixed + 7) / 8 : bytes);
        const int64_t later = inside || here + ahead < a.index.edges ? here + ahead : here;
        const char* row = reinterpret_cast<const char*>(p + a.index.in_src[later] * a.p_stride);
        for (int64_t line = 0; line < prefetched; ++line) prefetch(row + 64 * line);
        __builtin_prefetch(static_cast<const A*>(a.z) + a.index.in_edge[later], 1, 3);
        sum[g + j] = V::splat(0);
      }
      if constexpr (fixed != 0) {
#pragma GCC unroll 16
        for (int k = 0; k < fixed; k += V::width) columns<true, masked>(ps, qs, k, 0, masks, sum + g);
      } else {
        int64_t k = 0;
        for (; k + V::width <= h; k += V::width) columns<true, masked>(ps, qs, k, 0, masks, sum + g);
        if (k < h) columns<false, masked>(ps, qs, k, static_cast<int>(h - k), masks, sum + g);
      }
    }
    return V::sums(sum);
  }

  template <bool masked>
  PTD_INLINE V at(int64_t i, int64_t last) const {
    if (i + V::width > last + 1 || i + V::width + ahead > a.index.edges) return group<0, masked, false>(i, last);
    if constexpr (std::is_same_v<Row, float> && !leaky) {  // the most common case and sizes
      if (a.hidden == 16) return group<16, masked, true>(i, last);
      if (a.hidden == 32) return group<32, masked, true>(i, last);
      if (a.hidden == 64) return group<64, masked, true>(i, last);
      if (a.hidden == 128) return group<128, masked, true>(i, last);
    }
    return group<0, masked, true>(i, last);
  }

  __attribute__((noinline)) V at(int64_t i, int64_t last) const {
    return a.mask ? at<true>(i, last) : at<false>(i, last);
  }

  // For hidden = 1: a vector holds the numbers of V::width edges.
  PTD_INLINE V separable(int64_t i, int64_t last) const {
    alignas(64) A x[V::width];
    for (int j = 0; j < V::width; ++j) {
      const int64_t here = i + j <= last ? i + j : last;
      x[j] =
          static_cast<A>(p[a.index.in_src[here] * a.p_stride]) + static_cast<A>(q[a.index.in_dst[here] * a.q_stride]);
    }
    const V sum = V::load(x);
    return activate(sum, leaky ? sum.positive() : 0) * V::splat(w[0]);
  }
};

// Computes w . act(p_u + q_v) by position, and stores it in z in the caller's order.
template <class V, class Row, bool leaky>
void logits_by_dst(const EdgeGateForward& a, int64_t begin, int64_t end) {
  using A = typename V::Acc;
  const Logits<V, Row, leaky> logits(a);
  A* z = static_cast<A*>(a.z);
  const int64_t past = task_end<gate_task_edges>(end - 1, a.index.edges);
  for (int64_t i = begin * gate_task_edges; i < past; i += V::width) {
    alignas(64) A out[V::width];
    (a.hidden == 1 ? logits.separable(i, past - 1) : logits.at(i, past - 1)).store(out);
    const int count = static_cast<int>(past - i < V::width ? past - i : V::width);
    for (int j = 0; j < count; ++j) z[a.index.in_edge[i + j]] = out[j];
  }
}

// Turns the numbers in z into gates. It goes in the caller's order, where four edges share one draw.
template <class V>
void gates_by_edge(const EdgeGateForward& a, int64_t begin, int64_t end, double* penalty) {
  using A = typename V::Acc;
  const Stretch<A> s = stretch<A>(a.options, a.noisy);
  const V scale = V::splat(s.scale), range = V::splat(s.zeta - s.gamma), gamma = V::splat(s.gamma);
  const V shift = V::splat(-s.shift), c = V::splat(*static_cast<const A*>(a.c));
  const V half = V::splat(A(0.5)), unit = V::splat(A(1.1920928955078125e-07)), one = V::splat(1), minus = V::splat(-1);
  const A* bias = static_cast<const A*>(a.edge_bias);
  A *z = static_cast<A*>(a.z), *saved_logit = static_cast<A*>(a.logit);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t past = task_end<gate_task_edges>(task, a.index.edges);
    double open[V::width] = {};
    for (int64_t i = task * gate_task_edges; i < past; i += block) {
      const int n = static_cast<int>(past - i < block ? past - i : block);
      alignas(64) uint32_t bits[block];
      if (a.noisy) draw(a, i, n, bits);
      V open_block = V::splat(0);
      for (int g = 0; g < n; g += V::width) {
        const int count = n - g < V::width ? n - g : V::width;
        V logit = V::load(z + i + g, count);
        if (bias) logit = logit + V::load(bias + i + g, count);
        logit = logit + c;
        V x = logit;
        if (a.noisy) {
          const V eps = (V::from_bits(bits + g) + half) * unit;
          x = x + (eps / eps.fma(minus, one)).log();
        }
        alignas(64) A out[V::width];
        (x * scale).sigmoid().fma(range, gamma).clip01().store(out);
        std::memcpy(z + i + g, out, count * sizeof(A));
        if (penalty) {
          (logit + shift).sigmoid().store(out);
          open_block = open_block + V::load(out, count);
        }
        if (saved_logit) {
          logit.store(out);
          std::memcpy(saved_logit + i + g, out, count * sizeof(A));
        }
      }
      if (penalty) {
        A sums[V::width];
        open_block.store(sums);
        for (int j = 0; j < V::width; ++j) open[j] += sums[j];
      }
    }
    if (penalty) {
      penalty[task] = 0;
      for (int j = 0; j < V::width; ++j) penalty[task] += open[j];
    }
  }
}

// ---- backward ------------------------------------------------------------------------------------------------

// Stores dL/dlogit of edges [begin, end) in by_edge, in the caller's order. Returns their sum.
template <class V>
double logit_gradients(const EdgeGateBackward& a, typename V::Acc* by_edge, int64_t begin, int64_t end) {
  using A = typename V::Acc;
  const Stretch<A> s = stretch<A>(a.options, a.noisy);
  const A *z = static_cast<const A*>(a.z), *grad_z = static_cast<const A*>(a.grad_z);
  const A *logit = static_cast<const A*>(a.logit), *grad_penalty = static_cast<const A*>(a.grad_penalty);
  double total = 0;
  for (int64_t e = begin; e < end; ++e) by_edge[e] = grad_z ? grad_z[e] * s.slope(z[e]) : A(0);
  if (grad_penalty) {
    for (int64_t e = begin; e < end; e += V::width) {
      const int n = static_cast<int>(end - e < V::width ? end - e : V::width);
      alignas(64) A open[V::width];
      (V::load(logit + e, n) + V::splat(-s.shift)).sigmoid().store(open);
      for (int j = 0; j < n; ++j) by_edge[e + j] += *grad_penalty * open[j] * (A(1) - open[j]);
    }
  }
  for (int64_t e = begin; e < end; ++e) total += by_edge[e];
  return total;
}

// Reads and writes dL/dlogit and reads the mask of each position.
template <class A>
struct Records {
  char* grads;
  const char* masks;
  int64_t grad_step, mask_step;

  Records(const EdgeGateBackward& a, void* records)
      : grads(static_cast<char*>(records)),
        masks(has_mask(a.hidden) ? grads + sizeof(A) : reinterpret_cast<const char*>(a.mask)),
        grad_step(record_bytes(a.hidden, sizeof(A))),
        mask_step(has_mask(a.hidden) ? grad_step : mask_bytes(a.hidden)) {}

  PTD_INLINE A& grad(int64_t position) const { return *reinterpret_cast<A*>(grads + position * grad_step); }
  PTD_INLINE const uint8_t* mask(int64_t position) const {
    return reinterpret_cast<const uint8_t*>(masks + position * mask_step);
  }
};

// Copies dL/dlogit to the records, by position, for the sums over rows. With hidden = 1 there is no mask, so it is
// multiplied by the activation's slope here.
template <class V, class Row>
void order_gradients(const EdgeGateBackward& a, const GateScratch& scratch, int64_t begin, int64_t end) {
  using A = typename V::Acc;
  const A* by_edge = static_cast<const A*>(scratch.by_edge);
  const Row *p = static_cast<const Row*>(a.p), *q = static_cast<const Row*>(a.q);
  const Records<A> records(a, scratch.records);
  for (int64_t i = begin; i < end; ++i) records.grad(i) = by_edge[a.index.in_edge[i]];
  const int64_t bytes = mask_bytes(a.hidden);
  if (has_mask(a.hidden))
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(records.grads + i * records.grad_step + sizeof(A), a.mask + i * bytes, bytes);
  if (a.hidden > 1) return;
  for (int64_t i = begin; i < end; ++i) {
    const A x = static_cast<A>(p[a.index.in_src[i] * a.p_stride]) + static_cast<A>(q[a.index.in_dst[i] * a.q_stride]);
    records.grad(i) *= x > A(0) ? A(1) : static_cast<A>(a.options.negative_slope);
  }
}

// sum[0 .. count * width): the masked sum over slots [begin, end), for the columns that start at `byte` of the masks.
template <class V, bool leaky, int count>
void add_masked(const EdgeGateBackward& a, const Records<typename V::Acc>& records, const int32_t* order, int64_t begin,
                int64_t end, int64_t byte, typename V::Acc* sum) {
  using A = typename V::Acc;
  const int64_t bytes = mask_bytes(a.hidden), edges = a.index.edges;
  const A negative_slope = static_cast<A>(a.options.negative_slope);
  V acc[count];
  for (int k = 0; k < count; ++k) acc[k] = V::splat(0);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t position = order ? order[i] : i;
    if (order) {
      const int64_t later = order[i + 24 < edges ? i + 24 : i];
      prefetch(&records.grad(later));
      if (!has_mask(a.hidden)) prefetch(records.mask(later));
    }
    const uint8_t* mask = records.mask(position) + byte;
    const A grad = records.grad(position);
    const V g = V::splat(grad), below = V::splat(grad * negative_slope);
    for (int k = 0; k < count; ++k) {
      // The last vector of a row may have only one of its two mask bytes.
      const bool half = V::width == 16 && k == count - 1 && byte + 2 * k + 1 >= bytes;
      uint16_t bits = mask[k * V::width / 8];
      if (V::width == 16 && !half) std::memcpy(&bits, mask + 2 * k, 2);
      acc[k] = leaky ? acc[k] + V::select(bits, g, below) : acc[k].add_where(bits, g);
    }
  }
  for (int k = 0; k < count; ++k) acc[k].store(sum + k * V::width);
}

// sum [hidden]: the masked sum over slots [begin, end). Stretches of 32 edges are summed as A, the stretches as double,
// so that a hub's gradient is as exact as a leaf's.
template <class V, bool leaky>
void sum_slots(const EdgeGateBackward& a, const Records<typename V::Acc>& records, const int32_t* order, int64_t begin,
               int64_t end, double* sum) {
  using A = typename V::Acc;
  using Add = void (*)(const EdgeGateBackward&, const Records<A>&, const int32_t*, int64_t, int64_t, int64_t, A*);
  static constexpr Add adds[] = {add_masked<V, leaky, 1>, add_masked<V, leaky, 2>, add_masked<V, leaky, 3>,
                                 add_masked<V, leaky, 4>, add_masked<V, leaky, 5>, add_masked<V, leaky, 6>,
                                 add_masked<V, leaky, 7>, add_masked<V, leaky, 8>};
  if (a.hidden == 1) {
    sum[0] = 0;
    for (int64_t i = begin; i < end; ++i) sum[0] += records.grad(order ? order[i] : i);
    return;
  }
  constexpr int64_t stretch_edges = 32, max_columns = 8 * V::width;
  alignas(64) A part[max_columns];
  for (int64_t k = 0; k < a.hidden; k += max_columns) {
    const int64_t columns = a.hidden - k < max_columns ? a.hidden - k : max_columns;
    const Add add = adds[(columns + V::width - 1) / V::width - 1];
    for (int64_t i = begin; i < end; i += stretch_edges) {
      add(a, records, order, i, i + stretch_edges < end ? i + stretch_edges : end, k / 8, part);
      for (int64_t j = 0; j < columns; ++j) sum[k + j] = i == begin ? part[j] : sum[k + j] + part[j];
    }
  }
}

// The side of the graph whose rows' gradients a pass makes.
template <class Row>
struct GradientSide {
  EdgeSide edges;
  const int32_t* order;  // the position of each slot, or null where slots are positions
  int64_t stride;
  const Row* features;
  Row* grad;
  double sign;  // of the center in w's gradient

  static PTD_INLINE GradientSide dst(const EdgeGateBackward& a) {
    const Row* q = static_cast<const Row*>(a.q);
    return {a.index.by_dst(), nullptr, a.q_stride, q, static_cast<Row*>(a.grad_q), 1};
  }
  static PTD_INLINE GradientSide src(const EdgeGateBackward& a) {
    const Row* p = static_cast<const Row*>(a.p);
    return {a.index.by_src(), a.index.out_pos, a.p_stride, p, static_cast<Row*>(a.grad_p), -1};
  }
};

// Call it once a row's sum is complete: the row's gradient is w times the sum, and the row adds the product of its own
// numbers and the sum to w's gradient.
template <class V, class Row>
void finish_row(const EdgeGateBackward& a, const GradientSide<Row>& side, int64_t row, const double* sum,
                const double* center, double* grad_w) {
  using A = typename V::Acc;
  const A* w = static_cast<const A*>(a.w);
  const Row* x = side.features + row * side.stride;
  Row* grad = side.grad + row * a.hidden;
  for (int64_t k = 0; k < a.hidden; ++k) grad[k] = static_cast<Row>(static_cast<A>(w[k] * sum[k]));
  for (int64_t k = 0; k < a.hidden; ++k) {
    const double term = (static_cast<double>(static_cast<A>(x[k])) + side.sign * center[k]) * sum[k];
    grad_w[k] += sum[k] == 0 ? 0.0 : term;  // an infinite number whose gradient is 0 adds nothing
  }
}

template <class V, class Row, bool leaky>
void sum_rows(const EdgeGateBackward& a, const GradientSide<Row>& side, const GateScratch& scratch, int64_t task,
              double* sum) {
  const int64_t h = a.hidden;
  const Records<typename V::Acc> records(a, scratch.records);
  double* grad_w = scratch.grad_w + task * h;
  for (int64_t k = 0; k < h; ++k) grad_w[k] = 0;
  for_segments<gate_task_edges>(side.edges, task, task + 1, [&](int64_t, const Segment& s) {
    if (s.begin == s.end) {
      std::memset(static_cast<void*>(side.grad + s.row * h), 0, h * sizeof(Row));
      return;
    }
    double* to = s.whole() ? sum : scratch.pieces + s.piece(task) * h;
    sum_slots<V, leaky>(a, records, side.order, s.begin, s.end, to);
    if (s.whole()) finish_row<V, Row>(a, side, s.row, to, scratch.center, grad_w);
  });
}

template <class V, class Row>
void join_pieces(const EdgeGateBackward& a, const GradientSide<Row>& side, const GateScratch& scratch, double* grad_w) {
  const int64_t h = a.hidden, tasks = count_tasks<gate_task_edges>(a.index.edges);
  Buffer<double> sum(h);
  for (int64_t task = 0; task < tasks; ++task) {
    for (int64_t k = 0; k < h; ++k) grad_w[k] += scratch.grad_w[task * h + k];
    for_shared_rows<gate_task_edges>(side.edges, task, task + 1, [&](int64_t row, int64_t, int64_t last) {
      add_pieces(scratch.pieces, h, task, last, sum.data);
      finish_row<V, Row>(a, side, row, sum.data, scratch.center, grad_w);
    });
  }
}

template <class V, class Row, bool leaky>
struct EdgeGate {
  using A = typename V::Acc;
  static void backward_by_edge(const EdgeGateBackward& a, const GateScratch& scratch, int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task)
      scratch.grad_c[task] = logit_gradients<V>(a, static_cast<A*>(scratch.by_edge), task * gate_task_edges,
                                                task_end<gate_task_edges>(task, a.index.edges));
  }
  static void backward_by_dst(const EdgeGateBackward& a, const GateScratch& scratch, int64_t begin, int64_t end) {
    Buffer<double> sum(a.hidden);
    for (int64_t task = begin; task < end; ++task) {
      order_gradients<V, Row>(a, scratch, task * gate_task_edges, task_end<gate_task_edges>(task, a.index.edges));
      sum_rows<V, Row, leaky>(a, GradientSide<Row>::dst(a), scratch, task, sum.data);
    }
  }
  static void backward_by_src(const EdgeGateBackward& a, const GateScratch& scratch, int64_t begin, int64_t end) {
    Buffer<double> sum(a.hidden);
    for (int64_t task = begin; task < end; ++task)
      sum_rows<V, Row, leaky>(a, GradientSide<Row>::src(a), scratch, task, sum.data);
  }
  static void join_dst(const EdgeGateBackward& a, const GateScratch& scratch, double* grad_w) {
    join_pieces<V, Row>(a, GradientSide<Row>::dst(a), scratch, grad_w);
  }
  static void join_src(const EdgeGateBackward& a, const GateScratch& scratch, double* grad_w) {
    join_pieces<V, Row>(a, GradientSide<Row>::src(a), scratch, grad_w);
  }
  static constexpr EdgeGateKernels table{logits_by_dst<V, Row, leaky>,
                                         gates_by_edge<V>,
                                         backward_by_edge,
                                         backward_by_dst,
                                         backward_by_src,
                                         join_dst,
                                         join_src};
};

template <class V, class Row>
using ReluGate = EdgeGate<V, Row, false>;
template <class V, class Row>
using LeakyGate = EdgeGate<V, Row, true>;

}  // namespace

const EdgeGateKernels& relu_gate_kernels(Dtype dtype) { return table_for<ReluGate>(dtype); }
const EdgeGateKernels& leaky_gate_kernels(Dtype dtype) { return table_for<LeakyGate>(dtype); }

}  // namespace dgl_ptdnet::PTD_LEVEL
