// Draws uniform numbers on a CPU: divides the ids among threads.
#include "uniform_impl.h"

#include "device.h"

namespace dgl_ptdnet {

void Cpu::run(const Uniform& a, const Tensor&) {
  Threads()(a.edges, 4096, [&](int64_t begin, int64_t end) { draw_uniform(a, begin, end); });
}

}  // namespace dgl_ptdnet
