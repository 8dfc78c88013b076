// Common neighbours against sets of neighbours.
#include "cpu/common_neighbours_impl.h"

#include "testing.h"

using namespace dgl_ptdnet;

int main() {
  for_graphs([](const Graph& g, std::mt19937& random) {
    std::vector<int32_t> node, edge;  // by destination, sources ascending
    std::vector<std::vector<double>> weight_of(g.num_dst, std::vector<double>(g.num_src));
    const std::vector<double> weight = draw<double>(g.edges, random);
    for (int64_t row = 0; row < g.num_dst; ++row) {
      std::vector<int32_t> slots(g.in_edge.begin() + g.in_ptr[row], g.in_edge.begin() + g.in_ptr[row + 1]);
      std::stable_sort(slots.begin(), slots.end(), [&](int a, int b) { return g.src[a] < g.src[b]; });
      for (int32_t e : slots) node.push_back(g.src[e]), edge.push_back(e), weight_of[row][g.src[e]] += weight[e];
    }
    const int64_t pairs = 300;
    std::vector<int64_t> u(pairs), v(pairs);
    for (int64_t i = 0; i < pairs; ++i) u[i] = i % 3 ? random() % g.num_dst : 0, v[i] = random() % g.num_dst;
    std::vector<double> out(pairs, -7);
    const CommonNeighbours a{{g.in_ptr.data(), node.data(), edge.data(), g.num_dst, g.num_src, g.edges},
                             weight.data(),
                             u.data(),
                             v.data(),
                             pairs,
                             out.data()};
    OnThreads{3}(pairs, 1, [&](int64_t begin, int64_t end) { common_neighbours(a, begin, end); });
    for (int64_t i = 0; i < pairs; ++i) {
      const double want =
          std::inner_product(weight_of[u[i]].begin(), weight_of[u[i]].end(), weight_of[v[i]].begin(), 0.0);
      expect("common neighbours", out[i], want, 1e-9 * (1 + g.edges));
    }
  });
  return finish();
}
