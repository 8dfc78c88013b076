// What the tests of the CPU kernels share: graphs, threads, comparisons. Each program ends with finish().
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "core/types.h"

namespace dgl_ptdnet {

inline int failures = 0;

inline void expect(const char* what, double got, double want, double tolerance) {
  if (std::abs(got - want) <= tolerance) return;
  if (++failures < 20) std::printf("%s: %.9g, expected %.9g\n", what, got, want);
}

inline void require(const char* what, bool holds) {
  if (!holds && ++failures < 20) std::printf("%s\n", what);
}

inline int finish() {
  std::printf("%s\n", failures ? "FAILED" : "passed");
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

// Calls work(begin, end) for parts of 0 .. count on a number of threads.
struct OnThreads {
  int threads;
  template <class Work>
  void operator()(int64_t count, int64_t, const Work& work) const {
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) pool.emplace_back(work, count * t / threads, count * (t + 1) / threads);
    for (std::thread& t : pool) t.join();
  }
};

struct Graph {
  std::vector<int32_t> src, dst, in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos, out_dst, out_edge;
  int64_t edges, num_src, num_dst;

  Graph(int64_t e, int64_t s, int64_t d, bool hub, std::mt19937& random)
      : src(e), dst(e), in_edge(e), out_pos(e), edges(e), num_src(s), num_dst(d) {
    for (int64_t i = 0; i < e; ++i) src[i] = random() % s, dst[i] = hub && random() % 8 ? 0 : random() % d;
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
    in_ptr = starts(dst, d), out_ptr = starts(src, s);
  }
  EdgeIndexView view() const {
    return {in_ptr.data(),  in_src.data(),   in_dst.data(), in_edge.data(), out_ptr.data(), out_pos.data(),
            out_dst.data(), out_edge.data(), edges,         num_src,        num_dst};
  }
};

// Normal numbers.
template <class T = float>
std::vector<T> draw(int64_t count, std::mt19937& random) {
  std::normal_distribution<T> normal;
  std::vector<T> x(count);
  for (T& v : x) v = normal(random);
  return x;
}

// Calls check(graph, random) for graphs of several tasks, with a hub, and with rows that have no edge.
template <class Check>
void for_graphs(const Check& check) {
  std::mt19937 random(1);
  for (int64_t edges : {1, 63, 2048, 7001}) check(Graph(edges, 60, 40, false, random), random);
  check(Graph(9000, 40, 60, true, random), random);
  check(Graph(500, 900, 900, false, random), random);
}

}  // namespace dgl_ptdnet
