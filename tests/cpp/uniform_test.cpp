// Uniform numbers: in (0, 1), the same on any number of threads, spread evenly.
#include "cpu/uniform_impl.h"

#include "testing.h"

using namespace dgl_ptdnet;

int main() {
  std::vector<int64_t> ids(100'001);
  std::iota(ids.begin(), ids.end(), int64_t{-7});
  const int64_t noise[2] = {-3, int64_t{1} << 40}, count = static_cast<int64_t>(ids.size());
  std::vector<float> one(count), three(count);
  for (auto [threads, out] : {std::pair{1, &one}, {3, &three}})
    OnThreads{threads}(count, 1, [&, out = out](int64_t begin, int64_t end) {
      draw_uniform({noise, ids.data(), count, out->data()}, begin, end);
    });
  require("draws depend on the number of threads", one == three);
  require("a draw is not in (0, 1)", *std::min_element(one.begin(), one.end()) > 0);
  require("a draw is not in (0, 1)", *std::max_element(one.begin(), one.end()) < 1);
  expect("mean", std::accumulate(one.begin(), one.end(), 0.0) / count, 0.5, 0.005);
  return finish();
}
