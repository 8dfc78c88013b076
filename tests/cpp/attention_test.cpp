// The gated softmax with its gradients, and GATv2's scores, at the portable level, against the formula in double.
#include "cpu/attention_kernels.h"
#include "cpu/tasks.h"
#include "testing.h"

using namespace dgl_ptdnet;

namespace {

const AttentionKernels& kernels() { return portable::attention_kernels(Dtype::f32); }

double leaky(double x) { return x > 0 ? x : 0.2 * x; }

void check(const Graph& g, std::mt19937& random, int64_t heads, int64_t feats) {
  const int64_t width = heads * feats, tasks = count_tasks(g.edges);
  const EdgeIndexView view = g.view();
  const std::vector<float> h = draw(g.num_src * width, random), grad = draw(g.num_dst * width, random);
  const std::vector<float> el = draw(g.num_src * heads, random), er = draw(g.num_dst * heads, random);
  std::vector<float> z = draw(g.edges * heads, random);
  for (float& x : z) x = std::max(0.0f, x);
  const AttentionInputs inputs{view.by_dst(), view.by_src(), Dtype::f32, heads,    feats, h.data(), width,
                               el.data(),     er.data(),     nullptr,    z.data(), heads, 0.2};
  std::vector<float> out(g.num_dst * width, -7), max(g.num_dst * heads), sum(g.num_dst * heads),
      weights(g.edges * heads);
  const Tile<AttentionForward> a{{inputs, out.data(), max.data(), sum.data(), weights.data()}, heads, width, heads};
  std::vector<float> pieces(2 * tasks * kernels().piece_size(heads, feats));
  const OnThreads parallel{3};
  parallel(tasks, 1, [&](int64_t b, int64_t e) { kernels().forward(a, pieces.data(), b, e); });
  parallel(tasks, 1, [&](int64_t b, int64_t e) { kernels().join_forward(a, pieces.data(), b, e); });
  parallel(tasks, 1, [&](int64_t b, int64_t e) { kernels().weights(a, b, e); });

  std::vector<double> total(g.num_dst * heads), want(g.num_dst * width), alpha(g.edges * heads), beta(alpha);
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t e = 0; e < g.edges; ++e)
      for (int64_t k = 0; k < heads; ++k) {
        const int64_t v = g.dst[e] * heads + k, i = e * heads + k;
        const double x = std::exp(leaky(double{el[g.src[e] * heads + k]} + er[v]));
        if (pass == 0) {
          total[v] += z[i] * x;
        } else if (total[v] > 0) {
          beta[i] = x / total[v], alpha[i] = z[i] * beta[i];
          for (int64_t f = 0; f < feats; ++f) want[v * feats + f] += alpha[i] * h[(g.src[e] * heads + k) * feats + f];
        }
      }
  for (size_t i = 0; i < want.size(); ++i) expect("out", out[i], want[i], 1e-4);
  for (size_t i = 0; i < alpha.size(); ++i) expect("weight", weights[i], alpha[i], 1e-4);

  std::vector<float> grad_h(h.size(), -7), grad_el(el.size(), -7), grad_scores(alpha.size(), -7),
      grad_z(alpha.size(), -7);
  std::vector<float> records(g.num_dst * 4 * heads);
  AttentionBackward b = extend<AttentionBackward>(inputs);
  b.grad = grad.data(), b.grad_stride = width, b.result = out.data(), b.max = max.data(), b.sum = sum.data();
  b.grad_h = grad_h.data(), b.grad_el = grad_el.data(), b.grad_scores = grad_scores.data(), b.grad_z = grad_z.data();
  b.records = records.data();
  parallel(g.num_dst, 1, [&](int64_t x, int64_t y) { kernels().records(b, x, y); });
  parallel(tasks, 1, [&](int64_t x, int64_t y) { kernels().backward(b, pieces.data(), x, y); });
  parallel(tasks, 1, [&](int64_t x, int64_t y) { kernels().join_backward(b, pieces.data(), x, y); });
  std::vector<double> want_h(h.size()), want_el(el.size());
  for (int64_t e = 0; e < g.edges; ++e)
    for (int64_t k = 0; k < heads; ++k) {
      const int64_t u = g.src[e] * heads + k, v = g.dst[e] * heads + k, i = e * heads + k;
      double t = 0;
      for (int64_t f = 0; f < feats; ++f) {
        t += (h[u * feats + f] - want[v * feats + f]) * grad[v * feats + f];
        want_h[u * feats + f] += alpha[i] * grad[v * feats + f];
      }
      const double score = alpha[i] * t * (double{el[u]} + er[v] > 0 ? 1 : 0.2);
      want_el[u] += score;
      expect("grad of the score", grad_scores[i], score, 1e-3 * (1 + std::abs(score)));
      if (total[v] > 0) expect("grad_z", grad_z[i], beta[i] * t, 1e-3 * (1 + std::abs(beta[i] * t)));
    }
  for (size_t i = 0; i < want_h.size(); ++i) expect("grad_h", grad_h[i], want_h[i], 1e-3);
  for (size_t i = 0; i < want_el.size(); ++i)
    expect("grad_el", grad_el[i], want_el[i], 1e-3 * (1 + std::abs(want_el[i])));
}

void check_scores(const Graph& g, std::mt19937& random, int64_t heads, int64_t feats) {
  const int64_t width = heads * feats, tasks = count_tasks(g.edges);
  const EdgeIndexView view = g.view();
  const std::vector<float> p = draw(g.num_src * width, random), q = draw(g.num_dst * width, random);
  const std::vector<float> w = draw(width, random), grad = draw(g.edges * heads, random);
  const EdgeScoresInputs inputs{view.by_dst(), view.by_src(), Dtype::f32, heads,    feats, p.data(),
                                q.data(),      width,         width,      w.data(), 0.2};
  std::vector<float> scores(g.edges * heads, -7), grad_p(p.size(), -7), grad_q(q.size(), -7);
  const EdgeScoresForward a{inputs, scores.data()};
  OnThreads{3}(tasks, 1, [&](int64_t b, int64_t e) { kernels().scores(a, b, e); });
  EdgeScoresBackward b = extend<EdgeScoresBackward>(inputs);
  b.grad = grad.data(), b.grad_p = grad_p.data(), b.grad_q = grad_q.data();
  const std::vector<double> center(width, 0.1);
  std::vector<double> part_w(tasks * width);
  std::vector<float> pieces(2 * tasks * kernels().piece_size(heads, feats));
  for (const ScoreSide& side : {ScoreSide{b.out, b.p, b.q, width, width, b.grad_p, center.data(), -1},
                                ScoreSide{b.in, b.q, b.p, width, width, b.grad_q, center.data(), 1}})
    for (const auto pass : {kernels().scores_backward, kernels().join_scores})
      OnThreads{3}(tasks, 1, [&](int64_t first, int64_t past) {
        for (int64_t t = first; t < past; ++t) pass(b, side, pieces.data(), part_w.data() + t * width, t, t + 1);
      });
  std::vector<double> want_p(p.size()), want_q(q.size()), want_w(width);
  for (int64_t e = 0; e < g.edges; ++e)
    for (int64_t k = 0; k < heads; ++k) {
      double score = 0;
      for (int64_t f = k * feats; f < (k + 1) * feats; ++f) {
        const int64_t u = g.src[e] * width + f, v = g.dst[e] * width + f;
        const double x = double{p[u]} + q[v], slope = p[u] + q[v] > 0 ? 1 : 0.2;
        score += w[f] * leaky(x);
        want_p[u] += double{grad[e * heads + k]} * w[f] * slope,
            want_q[v] += double{grad[e * heads + k]} * w[f] * slope;
        want_w[f] += grad[e * heads + k] * leaky(x);
      }
      expect("score", scores[e * heads + k], score, 1e-4);
    }
  const double scale = 1e-4 * (1 + std::sqrt(static_cast<double>(g.edges)));
  for (size_t i = 0; i < want_p.size(); ++i) expect("grad_p", grad_p[i], want_p[i], scale);
  for (size_t i = 0; i < want_q.size(); ++i) expect("grad_q", grad_q[i], want_q[i], scale);
  for (int64_t f = 0; f < width; ++f) {
    double got = 0;
    for (int64_t t = 0; t < tasks; ++t) got += part_w[t * width + f];
    expect("grad_w", got, want_w[f], 10 * scale);
  }
}

}  // namespace

int main() {
  for_graphs([](const Graph& g, std::mt19937& random) {
    for (auto [heads, feats] : {std::pair<int64_t, int64_t>{1, 5}, {3, 8}, {2, 17}}) {
      check(g, random, heads, feats);
      check_scores(g, random, heads, feats);
    }
  });
  return finish();
}
