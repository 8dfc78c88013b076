// Runs degrees and gates' normalisation on a CPU: divides the tasks among threads.
#include "degrees_impl.h"

#include "device.h"

namespace dgl_ptdnet {

void Cpu::run(const SegmentSum& a, const Tensor&) {
  const int64_t tasks = count_tasks(a.side.edges);
  Buffer<double> pieces(tasks * 2 * a.heads);
  const auto run_tasks = [&](auto pass, auto join) {
    Threads()(tasks, 1, [&](int64_t begin, int64_t end) { pass(a, pieces.data, begin, end); });
    Threads()(tasks, 256, [&](int64_t begin, int64_t end) { join(a, pieces.data, begin, end); });
  };
  if (a.acc == Dtype::f64) {
    run_tasks(sum_segments<double, 0>, join_segments<double>);
  } else {
    run_tasks(a.heads == 1   ? sum_segments<float, 1>
              : a.heads == 4 ? sum_segments<float, 4>
                             : sum_segments<float, 0>,
              join_segments<float>);
  }
}

void Cpu::run(const SegmentSpread& a, const Tensor&) {
  Threads()(count_tasks(a.side.edges), 1, [&](int64_t begin, int64_t end) {
    a.acc == Dtype::f64 ? spread_segments<double>(a, begin, end) : spread_segments<float>(a, begin, end);
  });
}

void Cpu::run(const Normalize& a, const Tensor&) {
  Threads()(count_tasks(a.in.edges), 1, [&](int64_t begin, int64_t end) {
    a.acc == Dtype::f64 ? Normalizer<double>{a}.forward(begin, end) : Normalizer<float>{a}.forward(begin, end);
  });
}

void Cpu::run(const NormalizeBackward& a, const Tensor&) {
  Threads()(count_tasks(a.in.edges), 1, [&](int64_t begin, int64_t end) {
    a.acc == Dtype::f64 ? Normalizer<double>{a}.backward(a, begin, end) : Normalizer<float>{a}.backward(a, begin, end);
  });
}

}  // namespace dgl_ptdnet
