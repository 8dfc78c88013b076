// Sums and maxima over edges with their gradients, and dot products, at the portable level, against the formula.
#include "cpu/aggregate_kernels.h"
#include "cpu/tasks.h"
#include "testing.h"

using namespace dgl_ptdnet;

namespace {

const AggregateKernels& kernels() { return portable::aggregate_kernels(Dtype::f32); }

struct Gradients {
  std::vector<float> h, z;
};

Gradients backward(AggregateBackward a, int threads) {
  const int64_t tasks = count_tasks(a.side.edges);
  Gradients made{std::vector<float>(a.side.rows * a.heads * a.feats, -7),
                 std::vector<float>(a.side.edges * a.heads, -7)};
  a.grad_h = made.h.data(), a.grad_z = made.z.data();
  std::vector<float> pieces(2 * tasks * kernels().piece_size(a.heads, a.feats));
  const OnThreads parallel{threads};
  parallel(tasks, 1, [&](int64_t b, int64_t e) { kernels().backward(a, pieces.data(), b, e); });
  parallel(tasks, 1, [&](int64_t b, int64_t e) { kernels().join_backward(a, pieces.data(), b, e); });
  return made;
}

void check(const Graph& g, std::mt19937& random, int64_t heads, int64_t feats) {
  const int64_t width = heads * feats, tasks = count_tasks(g.edges);
  const EdgeIndexView view = g.view();
  const std::vector<float> h = draw(g.num_src * width, random), grad = draw(g.num_dst * width, random);
  std::vector<float> z = draw(g.edges * heads, random);
  for (float& x : z) x = std::max(0.0f, x);
  const double scale = 1e-5 * (1 + std::sqrt(static_cast<double>(g.edges)));

  std::vector<float> results[2];
  for (int k = 0; k < 2; ++k) {
    results[k].assign(g.num_dst * width, -7);
    const Tile<AggregateForward> a{
        {view.by_dst(), Dtype::f32, heads, feats, h.data(), width, z.data(), results[k].data()}, heads, width, heads};
    std::vector<float> pieces(2 * tasks * kernels().piece_size(heads, feats));
    const OnThreads parallel{1 + 2 * k};
    parallel(tasks, 1, [&](int64_t b, int64_t e) { kernels().forward(a, pieces.data(), b, e); });
    parallel(tasks, 1, [&](int64_t b, int64_t e) { kernels().join_forward(a, pieces.data(), b, e); });
  }
  require("sums depend on the number of threads", results[0] == results[1]);
  const AggregateBackward b{view.by_src(), Dtype::f32, heads,    feats,   h.data(), grad.data(),
                            width,         width,      z.data(), nullptr, nullptr,  nullptr};
  const Gradients one = backward(b, 1), three = backward(b, 3);
  require("gradients depend on the number of threads", one.h == three.h && one.z == three.z);
  std::vector<double> out(g.num_dst * width), grad_h(g.num_src * width);
  for (int64_t e = 0; e < g.edges; ++e)
    for (int64_t k = 0; k < heads; ++k) {
      double dot = 0;
      for (int64_t f = k * feats; f < (k + 1) * feats; ++f) {
        const int64_t u = g.src[e] * width + f, v = g.dst[e] * width + f;
        out[v] += double{z[e * heads + k]} * h[u];
        grad_h[u] += double{z[e * heads + k]} * grad[v];
        dot += double{h[u]} * grad[v];
      }
      expect("grad_z", one.z[e * heads + k], dot, scale);
    }
  for (size_t i = 0; i < out.size(); ++i) expect("out", results[0][i], out[i], scale);
  for (size_t i = 0; i < grad_h.size(); ++i) expect("grad_h", one.h[i], grad_h[i], scale);
}

void check_maximum(const Graph& g, std::mt19937& random, int64_t feats) {
  const int64_t tasks = count_tasks(g.edges);
  const EdgeIndexView view = g.view();
  const std::vector<float> h = draw(g.num_src * feats, random), grad = draw(g.num_dst * feats, random);
  std::vector<float> z = draw(g.edges, random), out(g.num_dst * feats, -7);
  for (float& x : z) x = std::max(0.0f, x);
  std::vector<int32_t> arg(g.num_dst * feats, -7);
  const MaximumForward a{view.by_dst(), Dtype::f32, feats, h.data(), feats, z.data(), out.data(), arg.data()};
  const int64_t size = 2 * tasks * kernels().piece_size(1, feats);
  std::vector<float> pieces(size);
  std::vector<int32_t> arg_pieces(size);
  OnThreads{3}(tasks, 1, [&](int64_t b, int64_t e) { kernels().maximum(a, pieces.data(), arg_pieces.data(), b, e); });
  OnThreads{3}(tasks, 1,
               [&](int64_t b, int64_t e) { kernels().join_maximum(a, pieces.data(), arg_pieces.data(), b, e); });
  std::vector<float> best(out.size());
  std::vector<int32_t> from(out.size(), -1);
  for (int64_t e = 0; e < g.edges; ++e)
    for (int64_t f = 0; f < feats && z[e] > 0; ++f) {
      const int64_t v = g.dst[e] * feats + f;
      const float x = z[e] * h[g.src[e] * feats + f];
      if (from[v] < 0 || x > best[v]) best[v] = x, from[v] = static_cast<int32_t>(e);
    }
  require("a maximum is wrong", out == best);
  require("a maximum came over another edge", arg == from);
  const AggregateBackward b{view.by_src(), Dtype::f32, 1,        feats,      h.data(), grad.data(),
                            feats,         feats,      z.data(), arg.data(), nullptr,  nullptr};
  const Gradients made = backward(b, 3);
  std::vector<double> grad_h(g.num_src * feats), grad_z(g.edges);
  for (int64_t v = 0; v < g.num_dst; ++v)
    for (int64_t f = 0; f < feats; ++f) {
      const int32_t e = from[v * feats + f];
      if (e < 0) continue;
      grad_h[g.src[e] * feats + f] += double{z[e]} * grad[v * feats + f];
      grad_z[e] += double{h[g.src[e] * feats + f]} * grad[v * feats + f];
    }
  for (size_t i = 0; i < grad_h.size(); ++i) expect("grad_h of a maximum", made.h[i], grad_h[i], 1e-4);
  for (size_t i = 0; i < grad_z.size(); ++i) expect("grad_z of a maximum", made.z[i], grad_z[i], 1e-4);
}

}  // namespace

int main() {
  for_graphs([](const Graph& g, std::mt19937& random) {
    for (auto [heads, feats] : {std::pair<int64_t, int64_t>{1, 1}, {1, 37}, {3, 5}, {2, 16}})
      check(g, random, heads, feats);
    for (int64_t feats : {1, 19, 64}) check_maximum(g, random, feats);
  });
  return finish();
}
