// Runs attention and GATv2's scores on a CPU: chooses the kernels and divides their tasks among threads.
#include <algorithm>
#include <vector>

#include "attention_kernels.h"
#include "column_centers.h"
#include "device.h"
#include "parts.h"
#include "tasks.h"

namespace dgl_ptdnet {
namespace {

Tensor empty_pieces(const AttentionKernels& k, int64_t tasks, int64_t heads, int64_t feats, const Tensor& rows) {
  return empty({tasks, 2, k.piece_size(heads, feats)}, rows.options().dtype(acc_type(rows)));
}

}  // namespace

void Cpu::run(const AttentionForward& a, const Tensor& rows) {
  const AttentionKernels& k = PTD_KERNELS(attention_kernels, a.dtype);
  const int64_t tasks = count_tasks(a.in.edges), number = static_cast<int64_t>(at::elementSize(acc_type(rows)));
  for_parts(rows, a.in.edges, a.heads, a.feats, true, [&](const Part& part, const Tensor& part_rows) {
    Tile<AttentionForward> tile = part.of(a, a.z_heads);
    const int64_t skipped = part.head * number;
    tile.h = part_rows.const_data_ptr(), tile.h_stride = part_rows.stride(0);
    move(tile.result, part.head * a.feats * rows.element_size());
    for (const void** x : {&tile.el, &tile.er, &tile.scores}) move(*x, skipped);
    for (void** x : {&tile.max, &tile.sum, &tile.weights}) move(*x, skipped);
    if (a.z_heads > 1) tile.z_heads = part.heads, move(tile.z, skipped);
    const Tensor space = empty_pieces(k, tasks, part.heads, part.feats, rows);
    void* pieces = space.mutable_data_ptr();
    Threads()(tasks, 1, [&](int64_t begin, int64_t end) { k.forward(tile, pieces, begin, end); });
    Threads()(tasks, 64, [&](int64_t begin, int64_t end) { k.join_forward(tile, pieces, begin, end); });
    if (a.weights) Threads()(tasks, 1, [&](int64_t begin, int64_t end) { k.weights(tile, begin, end); });
  });
}

void Cpu::run(const AttentionBackward& a, const Tensor& rows) {
  const AttentionKernels& k = PTD_KERNELS(attention_kernels, a.dtype);
  const int64_t tasks = count_tasks(a.out.edges);
  const Tensor space = empty_pieces(k, tasks, a.heads, a.feats, rows);
  void* pieces = space.mutable_data_ptr();
  Threads()(a.in.rows, 256, [&](int64_t begin, int64_t end) { k.records(a, begin, end); });
  Threads()(tasks, 1, [&](int64_t begin, int64_t end) { k.backward(a, pieces, begin, end); });
  Threads()(tasks, 64, [&](int64_t begin, int64_t end) { k.join_backward(a, pieces, begin, end); });
}

void Cpu::run(const EdgeScoresForward& a, const Tensor&) {
  const AttentionKernels& k = PTD_KERNELS(attention_kernels, a.dtype);
  Threads()(count_tasks(a.in.edges), 1, [&](int64_t begin, int64_t end) { k.scores(a, begin, end); });
}

void Cpu::run(const EdgeScoresBackward& a, const Tensor& rows) {
  const AttentionKernels& k = PTD_KERNELS(attention_kernels, a.dtype);
  const int64_t tasks = count_tasks(a.in.edges), width = a.heads * a.feats;
  const Tensor space = empty_pieces(k, tasks, a.heads, a.feats, rows);
  const std::vector<double> center = column_centers(a.p, a.dtype, a.p_stride, a.out.rows, width);
  void* pieces = space.mutable_data_ptr();
  // w's gradient is summed over parts of the tasks; their number does not depend on the number of threads.
  const int64_t parts = std::min<int64_t>(tasks, 64);
  std::vector<double> part_w(parts * width);
  for (const ScoreSide& side : {ScoreSide{a.out, a.p, a.q, a.p_stride, a.q_stride, a.grad_p, center.data(), -1},
                                ScoreSide{a.in, a.q, a.p, a.q_stride, a.p_stride, a.grad_q, center.data(), 1}}) {
    for (const auto pass : {k.scores_backward, k.join_scores}) {
      Threads()(parts, 1, [&](int64_t first, int64_t past) {
        for (int64_t part = first; part < past; ++part)
          pass(a, side, pieces, part_w.data() + part * width, tasks * part / parts, tasks * (part + 1) / parts);
      });
    }
  }
  for (int64_t i = 0; i < width; ++i) {
    double total = 0;
    for (int64_t part = 0; part < parts; ++part) total += part_w[part * width + i];
    if (a.dtype == Dtype::f64) {
      static_cast<double*>(a.grad_w)[i] = total;
    } else {
      static_cast<float*>(a.grad_w)[i] = static_cast<float>(total);
    }
  }
}

}  // namespace dgl_ptdnet
