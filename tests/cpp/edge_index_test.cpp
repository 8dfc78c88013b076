// The orders of an index, on any number of threads, against stable sorts; ids out of range are found.
#include "cpu/edge_index_impl.h"

#include "testing.h"

using namespace dgl_ptdnet;

int main() {
  for_graphs([](const Graph& g, std::mt19937&) {
    for (int threads : {1, 3}) {
      std::vector<int32_t> made[8];
      for (int i = 0; i < 8; ++i) made[i].assign(i == 0 ? g.num_dst + 1 : i == 4 ? g.num_src + 1 : g.edges, -1);
      const EdgeIndexArrays arrays{made[0].data(), made[1].data(), made[2].data(), made[3].data(),
                                   made[4].data(), made[5].data(), made[6].data(), made[7].data()};
      order_edges(g.src.data(), g.dst.data(), g.edges, g.num_src, g.num_dst, arrays, threads, OnThreads{threads});
      const std::vector<int32_t>* want[8] = {&g.in_ptr,  &g.in_src,  &g.in_dst,  &g.in_edge,
                                             &g.out_ptr, &g.out_pos, &g.out_dst, &g.out_edge};
      for (int i = 0; i < 8; ++i) require("an order is not the stable sort's", made[i] == *want[i]);
    }
  });
  const std::vector<int64_t> ids{0, 4, 2, -1, 5};
  require("a negative id is not found", find_bad_id(ids.data(), 4, 5) == 3);
  require("an id too large is not found", find_bad_id(ids.data(), 2, 4) == 1);
  require("good ids are refused", find_bad_id(ids.data(), 3, 5) == -1);
  return finish();
}
