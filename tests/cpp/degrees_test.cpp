// Sums of edges' numbers by row, the way back, and the normalisation with its gradient, against the formula in double.
#include "cpu/degrees_impl.h"

#include "testing.h"

using namespace dgl_ptdnet;

namespace {

template <class A>
std::vector<A> sum(const EdgeSide& side, int64_t heads, const std::vector<A>& x, int threads) {
  std::vector<A> out(side.rows * heads, A(-7));
  const SegmentSum a{side, Dtype::f32, heads, x.data(), out.data()};
  const int64_t tasks = count_tasks(side.edges);
  std::vector<double> pieces(2 * tasks * heads);
  const OnThreads parallel{threads};
  parallel(tasks, 1, [&](int64_t b, int64_t e) { sum_segments<A, 0>(a, pieces.data(), b, e); });
  parallel(tasks, 1, [&](int64_t b, int64_t e) { join_segments<A>(a, pieces.data(), b, e); });
  return out;
}

void check(const Graph& g, std::mt19937& random, int64_t heads) {
  const EdgeIndexView view = g.view();
  std::vector<float> z = draw(g.edges * heads, random), grad = draw(g.edges * heads, random);
  for (float& x : z) x = std::max(0.0f, x);
  const std::vector<float> in_deg = sum(view.by_dst(), heads, z, 3), out_deg = sum(view.by_src(), heads, z, 1);
  require("sums depend on the number of threads", in_deg == sum(view.by_dst(), heads, z, 1));
  std::vector<double> in(g.num_dst * heads), out(g.num_src * heads);
  for (int64_t e = 0; e < g.edges; ++e)
    for (int64_t h = 0; h < heads; ++h)
      in[g.dst[e] * heads + h] += z[e * heads + h], out[g.src[e] * heads + h] += z[e * heads + h];
  for (size_t i = 0; i < in.size(); ++i) expect("in-degree", in_deg[i], in[i], 1e-6 * (1 + in[i]));
  for (size_t i = 0; i < out.size(); ++i) expect("out-degree", out_deg[i], out[i], 1e-6 * (1 + out[i]));

  std::vector<float> spread(g.edges * heads, -7.0f);
  const SegmentSpread s{view.by_src(), Dtype::f32, heads, out_deg.data(), spread.data()};
  OnThreads{3}(count_tasks(g.edges), 1, [&](int64_t b, int64_t e) { spread_segments<float>(s, b, e); });
  for (int64_t i = 0; i < g.edges * heads; ++i)
    require("an edge has not its row's number", spread[i] == out_deg[g.src[i / heads] * heads + i % heads]);

  const double floor = 0.5;
  std::vector<float> w(g.edges * heads), grad_z(g.edges * heads), product(g.edges * heads);
  NormalizeBackward a{};
  a.in = view.by_dst(), a.heads = heads, a.options = {0.5, 1.0, floor};
  a.z = z.data(), a.out_deg = out_deg.data(), a.in_deg = in_deg.data(), a.w = w.data();
  OnThreads{3}(count_tasks(g.edges), 1, [&](int64_t b, int64_t e) { Normalizer<float>{a}.forward(b, e); });
  for (int64_t i = 0; i < g.edges * heads; ++i) product[i] = grad[i] * w[i];
  const std::vector<float> in_sum = sum(view.by_dst(), heads, product, 1),
                           out_sum = sum(view.by_src(), heads, product, 1);
  a.grad = grad.data(), a.out_sum = out_sum.data(), a.in_sum = in_sum.data(), a.grad_z = grad_z.data();
  OnThreads{3}(count_tasks(g.edges), 1, [&](int64_t b, int64_t e) { Normalizer<float>{a}.backward(a, b, e); });
  for (int64_t i = 0; i < g.edges * heads; ++i) {
    const int64_t u = g.src[i / heads] * heads + i % heads, v = g.dst[i / heads] * heads + i % heads;
    const double du = std::max(out[u], floor), dv = std::max(in[v], floor), scale = 1 / std::sqrt(du) / dv;
    expect("w", w[i], z[i] * scale, 1e-5);
    double want = grad[i] * scale;
    if (out[u] >= floor) want -= 0.5 / out[u] * out_sum[u];
    if (in[v] >= floor) want -= 1 / in[v] * in_sum[v];
    expect("grad_z", grad_z[i], want, 1e-4);
  }
}

}  // namespace

int main() {
  for (int64_t heads : {1, 3}) for_graphs([&](const Graph& g, std::mt19937& random) { check(g, random, heads); });
  return finish();
}
