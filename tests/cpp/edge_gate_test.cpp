// The CPU kernels without torch: every level that this processor has, on several threads, against the formula in
// double. Built with sanitizers by test_cpp.py.
#include "cpu/edge_gate_kernels.h"
#include "testing.h"

using namespace dgl_ptdnet;

namespace {

struct Results {
  std::vector<float> z, grad_p, grad_q, by_edge;
  std::vector<double> grad_w;
  double penalty, grad_c;
};

Results run(const EdgeGateKernels& k, const Graph& g, EdgeGateInputs inputs, const std::vector<float>& grad_z,
            float grad_penalty, int threads) {
  const int64_t e = g.edges, h = inputs.hidden, tasks = (e + gate_task_edges - 1) / gate_task_edges;
  Results r{std::vector<float>(e),
            std::vector<float>(g.num_src * h),
            std::vector<float>(g.num_dst * h),
            std::vector<float>(e),
            std::vector<double>(h),
            0,
            0};
  std::vector<uint8_t> mask(e * mask_bytes(h));
  std::vector<float> logit(e), records(e * record_bytes(h, sizeof(float)) / sizeof(float));
  std::vector<double> parts(tasks), pieces(2 * tasks * h), task_w(tasks * h), center(h, 0.1);
  const float c = 0.25f;
  const OnThreads parallel{threads};
  const int64_t noise[2] = {77, 3};
  EdgeGateForward f{};
  static_cast<EdgeGateInputs&>(f) = inputs;
  f.c = &c, f.noise = noise, f.z = r.z.data(), f.mask = h == 1 ? nullptr : mask.data(), f.logit = logit.data();
  parallel(tasks, 1, [&](int64_t begin, int64_t end) { k.logits_by_dst(f, begin, end); });
  parallel(tasks, 1, [&](int64_t begin, int64_t end) { k.gates_by_edge(f, begin, end, parts.data()); });
  r.penalty = std::accumulate(parts.begin(), parts.end(), 0.0);
  EdgeGateBackward b{};
  static_cast<EdgeGateInputs&>(b) = inputs;
  b.z = r.z.data(), b.mask = f.mask, b.logit = logit.data(), b.grad_z = grad_z.data();
  b.grad_penalty = &grad_penalty, b.grad_p = r.grad_p.data(), b.grad_q = r.grad_q.data();
  const GateScratch scratch{center.data(), pieces.data(),    task_w.data(),
                            parts.data(),  r.by_edge.data(), records.data()};
  parallel(tasks, 1, [&](int64_t begin, int64_t end) { k.backward_by_edge(b, scratch, begin, end); });
  parallel(tasks, 1, [&](int64_t begin, int64_t end) { k.backward_by_dst(b, scratch, begin, end); });
  k.join_dst(b, scratch, r.grad_w.data());
  parallel(tasks, 1, [&](int64_t begin, int64_t end) { k.backward_by_src(b, scratch, begin, end); });
  k.join_src(b, scratch, r.grad_w.data());
  r.grad_c = std::accumulate(parts.begin(), parts.end(), 0.0);
  return r;
}

void check(const EdgeGateKernels& k, int64_t edges, int64_t num_src, int64_t num_dst, int64_t h, bool hub) {
  std::mt19937 random(static_cast<unsigned>(edges + 31 * h));
  const Graph g(edges, num_src, num_dst, hub, random);
  const std::vector<float> p = draw(num_src * h, random), q = draw(num_dst * h, random), w = draw(h, random);
  const std::vector<float> grad_z = draw(edges, random);
  const float grad_penalty = 0.01f;
  const EdgeGateInputs inputs{g.view(), Dtype::f32, p.data(), q.data(), h, h, h, w.data(), {0.0, 0.7, -0.1, 1.1}, true};
  const Results r = run(k, g, inputs, grad_z, grad_penalty, 1), again = run(k, g, inputs, grad_z, grad_penalty, 3);
  if (r.z != again.z || r.grad_p != again.grad_p || r.grad_q != again.grad_q || r.grad_w != again.grad_w ||
      r.penalty != again.penalty || r.grad_c != again.grad_c)
    require("results depend on the number of threads", false);
  const Stretch<double> s = stretch<double>(inputs.options, true);
  std::vector<double> grad_p(num_src * h), grad_q(num_dst * h), grad_w(h);
  double penalty = 0, grad_c = 0;
  for (int64_t i = 0; i < edges; ++i) {
    const int64_t e = g.in_edge[i], u = g.in_src[i], v = g.in_dst[i];
    double logit = 0.25;
    for (int64_t j = 0; j < h; ++j) logit += w[j] * std::max(0.0, double{p[u * h + j]} + q[v * h + j]);
    const double z = s.gate(logit, log_odds(to_uniform<double>(edge_bits(e, 77, 3))));
    expect("z", r.z[e], z, 1e-5 * (1));
    penalty += s.open(logit);
    const double a = grad_z[e] * s.slope(r.z[e]) + grad_penalty * s.open_slope(logit);
    grad_c += a;
    for (int64_t j = 0; j < h; ++j) {
      const double x = double{p[u * h + j]} + q[v * h + j];
      if (x <= 0) continue;
      grad_p[u * h + j] += a * w[j], grad_q[v * h + j] += a * w[j], grad_w[j] += a * x;
    }
  }
  const double scale = 1 + std::sqrt(static_cast<double>(edges));
  expect("penalty", r.penalty, penalty, 1e-5 * (1 + penalty));
  expect("grad_c", r.grad_c, grad_c, 1e-5 * (scale));
  for (size_t j = 0; j < grad_w.size(); ++j) expect("grad_w", r.grad_w[j], grad_w[j], 1e-5 * (4 * scale));
  for (size_t j = 0; j < grad_p.size(); ++j) expect("grad_p", r.grad_p[j], grad_p[j], 1e-5 * (scale));
  for (size_t j = 0; j < grad_q.size(); ++j) expect("grad_q", r.grad_q[j], grad_q[j], 1e-5 * (scale));
}

void check_level(const char* name, const EdgeGateKernels& k) {
  for (int64_t h : {1, 5, 16, 24, 64, 130}) {
    for (int64_t edges : {1, 63, 2048, 7001}) check(k, edges, 60, 40, h, false);
    check(k, 9000, 40, 60, h, true);
    check(k, 500, 900, 900, h, false);  // most rows are empty
  }
  std::printf("%s\n", name);
}

}  // namespace

int main() {
  check_level("portable", portable::relu_gate_kernels(Dtype::f32));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    check_level("avx2", avx2::relu_gate_kernels(Dtype::f32));
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    check_level("avx512", avx512::relu_gate_kernels(Dtype::f32));
#endif
  return finish();
}
