// Runs the operators' kernels on a CPU; see operators.h.
#pragma once

#include <ATen/Parallel.h>

#include "../aggregate.h"
#include "../attention.h"
#include "../common_neighbours.h"
#include "../core/index.h"
#include "../degrees.h"
#include "../edge_gate.h"
#include "../uniform.h"

namespace dgl_ptdnet {

struct Cpu {
  static IndexTensors order_edges(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst);

  static void run(const CommonNeighbours& a, const Tensor& like);
  static void run(const Uniform& a, const Tensor& like);
  static void run(const EdgeGateForward& a, const Tensor& rows);
  static void run(const EdgeGateBackward& a, const Tensor& rows);
  static void run(const AggregateForward& a, const Tensor& rows);
  static void run(const AggregateBackward& a, const Tensor& rows);
  static void run(const MaximumForward& a, const Tensor& rows);
  static void run(const SegmentSum& a, const Tensor& numbers);
  static void run(const SegmentSpread& a, const Tensor& numbers);
  static void run(const Normalize& a, const Tensor& numbers);
  static void run(const NormalizeBackward& a, const Tensor& numbers);
  static void run(const AttentionForward& a, const Tensor& rows);
  static void run(const AttentionBackward& a, const Tensor& rows);
  static void run(const EdgeScoresForward& a, const Tensor& rows);
  static void run(const EdgeScoresBackward& a, const Tensor& rows);
};

// Calls work(begin, end) for parts of 0 .. count - 1, on all threads.
struct Threads {
  template <class Work>
  void operator()(int64_t count, int64_t grain, const Work& work) const {
    at::parallel_for(0, count, grain, work);
  }
};

}  // namespace dgl_ptdnet
