// Runs aggregate and maximum on a CPU: chooses the kernels and divides their tasks among threads.
#include "aggregate_kernels.h"
#include "device.h"
#include "parts.h"
#include "tasks.h"

namespace dgl_ptdnet {
namespace {

// Runs the pass over tasks, then joins the rows that span several tasks.
template <class Args, class Pass, class Join, class... Pieces>
void run_tasks(const Args& a, int64_t tasks, Pass pass, Join join, Pieces... pieces) {
  Threads()(tasks, 1, [&](int64_t begin, int64_t end) { pass(a, pieces..., begin, end); });
  Threads()(tasks, 64, [&](int64_t begin, int64_t end) { join(a, pieces..., begin, end); });
}

Tensor empty_pieces(const AggregateKernels& k, int64_t tasks, int64_t heads, int64_t feats, const Tensor& rows) {
  return empty({tasks, 2, k.piece_size(heads, feats)}, rows.options().dtype(acc_type(rows)));
}

}  // namespace

void Cpu::run(const AggregateForward& a, const Tensor& rows) {
  const AggregateKernels& k = PTD_KERNELS(aggregate_kernels, a.dtype);
  const int64_t tasks = count_tasks(a.side.edges);
  const int64_t element = rows.element_size(), number = static_cast<int64_t>(at::elementSize(acc_type(rows)));
  for_parts(rows, a.side.edges, a.heads, a.feats, false, [&](const Part& part, const Tensor& part_rows) {
    Tile<AggregateForward> tile = part.of(a, a.heads);
    tile.h = part_rows.const_data_ptr(), tile.h_stride = part_rows.stride(0);
    move(tile.z, part.head * number), move(tile.out, (part.head * a.feats + part.column) * element);
    const Tensor pieces = empty_pieces(k, tasks, part.heads, part.feats, rows);
    run_tasks(tile, tasks, k.forward, k.join_forward, pieces.mutable_data_ptr());
  });
}

void Cpu::run(const AggregateBackward& a, const Tensor& rows) {
  const AggregateKernels& k = PTD_KERNELS(aggregate_kernels, a.dtype);
  const int64_t tasks = count_tasks(a.side.edges);
  const Tensor pieces = empty_pieces(k, tasks, a.heads, a.feats, rows);
  run_tasks(a, tasks, k.backward, k.join_backward, pieces.mutable_data_ptr());
}

void Cpu::run(const MaximumForward& a, const Tensor& rows) {
  const AggregateKernels& k = PTD_KERNELS(aggregate_kernels, a.dtype);
  const int64_t tasks = count_tasks(a.side.edges);
  const Tensor pieces = empty_pieces(k, tasks, 1, a.feats, rows);
  const Tensor args = empty(pieces.sizes(), rows.options().dtype(at::kInt));
  run_tasks(a, tasks, k.maximum, k.join_maximum, pieces.mutable_data_ptr(), args.mutable_data_ptr<int32_t>());
}

}  // namespace dgl_ptdnet
