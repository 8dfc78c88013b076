// The CPU kernels without torch: every level that this processor has, on several threads, against the formula in
// double. Built with sanitizers by test_cpp.py.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "cpu/edge_gate_kernels.h"

using namespace dgl_ptdnet;

namespace {

struct Graph {
  std::vector<int32_t> in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos, out_dst, out_edge;
  int64_t edges, num_src, num_dst;

  Graph(int64_t e, int64_t s, int64_t d, bool hub, std::mt19937& random) : edges(e), num_src(s), num_dst(d) {
    std::vector<int32_t> src(e), dst(e);
    for (int64_t i = 0; i < e; ++i) src[i] = random() % s, dst[i] = hub && random() % 8 ? 0 : random() % d;
    in_edge.resize(e), out_pos.resize(e);
    std::iota(in_edge.begin(), in_edge.end(), 0);
    std::iota(out_pos.begin(), out_pos.end(), 0);
    std::stable_sort(in_edge.begin(), in_edge.end(), [&](int a, int b) { return dst[a] < dst[b]; });
    for (int32_t i : in_edge) in_src.push_back(src[i]), in_dst.push_back(dst[i]);
    std::stable_sort(out_pos.begin(), out_pos.end(), [&](int a, int b) { return in_src[a] < in_src[b]; });
    for (int32_t i : out_pos) out_dst.push_back(in_dst[i]), out_edge.push_back(in_edge[i]);
    const auto starts = [](const std::vector<int32_t>& keys, int64_t count) {
      std::vector<int32_t> ptr(count + 1);
      for (int32_t k : keys) ++ptr[k + 1];
      std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
      return ptr;
    };
    in_ptr = starts(in_dst, d), out_ptr = starts(in_src, s);
  }
  EdgeIndexView view() const {
    return {in_ptr.data(),  in_src.data(),   in_dst.data(), in_edge.data(), out_ptr.data(), out_pos.data(),
            out_dst.data(), out_edge.data(), edges,         num_src,        num_dst};
  }
};

// Calls work(begin, end) for the tasks, shared by a number of threads.
template <class Work>
void on_threads(int64_t tasks, int threads, const Work& work) {
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) pool.emplace_back(work, tasks * t / threads, tasks * (t + 1) / threads);
  for (std::thread& t : pool) t.join();
}

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
  const int64_t noise[2] = {77, 3};
  EdgeGateForward f{};
  static_cast<EdgeGateInputs&>(f) = inputs;
  f.c = &c, f.noise = noise, f.z = r.z.data(), f.mask = h == 1 ? nullptr : mask.data(), f.logit = logit.data();
  on_threads(tasks, threads, [&](int64_t begin, int64_t end) { k.logits_by_dst(f, begin, end); });
  on_threads(tasks, threads, [&](int64_t begin, int64_t end) { k.gates_by_edge(f, begin, end, parts.data()); });
  r.penalty = std::accumulate(parts.begin(), parts.end(), 0.0);
  EdgeGateBackward b{};
  static_cast<EdgeGateInputs&>(b) = inputs;
  b.z = r.z.data(), b.mask = f.mask, b.logit = logit.data(), b.grad_z = grad_z.data();
  b.grad_penalty = &grad_penalty, b.grad_p = r.grad_p.data(), b.grad_q = r.grad_q.data();
  const GateScratch scratch{center.data(), pieces.data(),    task_w.data(),
                            parts.data(),  r.by_edge.data(), records.data()};
  on_threads(tasks, threads, [&](int64_t begin, int64_t end) { k.backward_by_edge(b, scratch, begin, end); });
  on_threads(tasks, threads, [&](int64_t begin, int64_t end) { k.backward_by_dst(b, scratch, begin, end); });
  k.join_dst(b, scratch, r.grad_w.data());
  on_threads(tasks, threads, [&](int64_t begin, int64_t end) { k.backward_by_src(b, scratch, begin, end); });
  k.join_src(b, scratch, r.grad_w.data());
  r.grad_c = std::accumulate(parts.begin(), parts.end(), 0.0);
  return r;
}

int failures = 0;

void expect(const char* what, double got, double want, double scale) {
  if (std::abs(got - want) <= 1e-5 * scale) return;
  if (++failures < 20) std::printf("%s: %.9g, expected %.9g\n", what, got, want);
}

void check(const EdgeGateKernels& k, int64_t edges, int64_t num_src, int64_t num_dst, int64_t h, bool hub) {
  std::mt19937 random(static_cast<unsigned>(edges + 31 * h));
  std::normal_distribution<float> normal;
  const auto draw = [&](int64_t n) {
    std::vector<float> x(n);
    for (float& v : x) v = normal(random);
    return x;
  };
  const Graph g(edges, num_src, num_dst, hub, random);
  const std::vector<float> p = draw(num_src * h), q = draw(num_dst * h), w = draw(h), grad_z = draw(edges);
  const float grad_penalty = 0.01f;
  const EdgeGateInputs inputs{g.view(), Dtype::f32, p.data(), q.data(), h, h, h, w.data(), {0.0, 0.7, -0.1, 1.1}, true};
  const Results r = run(k, g, inputs, grad_z, grad_penalty, 1), again = run(k, g, inputs, grad_z, grad_penalty, 3);
  if (r.z != again.z || r.grad_p != again.grad_p || r.grad_q != again.grad_q || r.grad_w != again.grad_w ||
      r.penalty != again.penalty || r.grad_c != again.grad_c) {
    std::printf("results depend on the number of threads\n");
    ++failures;
  }
  const Stretch<double> s = stretch<double>(inputs.options, true);
  std::vector<double> grad_p(num_src * h), grad_q(num_dst * h), grad_w(h);
  double penalty = 0, grad_c = 0;
  for (int64_t i = 0; i < edges; ++i) {
    const int64_t e = g.in_edge[i], u = g.in_src[i], v = g.in_dst[i];
    double logit = 0.25;
    for (int64_t j = 0; j < h; ++j) logit += w[j] * std::max(0.0, double{p[u * h + j]} + q[v * h + j]);
    const double z = s.gate(logit, log_odds(to_uniform<double>(edge_bits(e, 77, 3))));
    expect("z", r.z[e], z, 1);
    penalty += s.kept(logit);
    const double a = grad_z[e] * s.slope(r.z[e]) + grad_penalty * s.kept_slope(logit);
    grad_c += a;
    for (int64_t j = 0; j < h; ++j) {
      const double x = double{p[u * h + j]} + q[v * h + j];
      if (x <= 0) continue;
      grad_p[u * h + j] += a * w[j], grad_q[v * h + j] += a * w[j], grad_w[j] += a * x;
    }
  }
  const double scale = 1 + std::sqrt(static_cast<double>(edges));
  expect("penalty", r.penalty, penalty, 1 + penalty);
  expect("grad_c", r.grad_c, grad_c, scale);
  for (size_t j = 0; j < grad_w.size(); ++j) expect("grad_w", r.grad_w[j], grad_w[j], 4 * scale);
  for (size_t j = 0; j < grad_p.size(); ++j) expect("grad_p", r.grad_p[j], grad_p[j], scale);
  for (size_t j = 0; j < grad_q.size(); ++j) expect("grad_q", r.grad_q[j], grad_q[j], scale);
}

void check_level(const char* name, const EdgeGateKernels& k) {
  for (int64_t h : {1, 5, 16, 24, 64, 130}) {
    for (int64_t edges : {1, 63, 2048, 7001}) check(k, edges, 60, 40, h, false);
    check(k, 9000, 40, 60, h, true);
    check(k, 500, 900, 900, h, false);  // most rows are empty
  }
  std::printf("%s: %s\n", name, failures ? "FAILED" : "passed");
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
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
