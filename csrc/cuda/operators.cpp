// Registers the operators for a GPU. The index is made by torch's sorts.
#include "../operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "launch.h"

namespace dgl_ptdnet {
namespace {

// [count + 1] the place in sorted_ids where each id starts.
Tensor starts(const Tensor& sorted_ids, int64_t count) {
  return at::searchsorted(sorted_ids, at::arange(count + 1, sorted_ids.options()), /*out_int32=*/true);
}

void check_ids(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst) {
  if (src.numel() == 0) return;
  const auto [low_src, high_src] = at::aminmax(src);
  const auto [low_dst, high_dst] = at::aminmax(dst);
  // Here the CPU waits for the GPU, only once.
  const Tensor ends = at::stack({low_src, high_src, low_dst, high_dst}).to(at::kLong).cpu();
  const int64_t* end = ends.const_data_ptr<int64_t>();
  const auto complain = [](const char* name, const Tensor& ids, int64_t count) {
    const int64_t edge = at::logical_or(ids < 0, ids >= count).nonzero()[0].item<int64_t>();
    id_out_of_range(name, ids[edge].item<int64_t>(), edge, count);
  };
  if (end[0] < 0 || end[1] >= num_src) complain("src", src, num_src);
  if (end[2] < 0 || end[3] >= num_dst) complain("dst", dst, num_dst);
}

struct Cuda {
  static IndexTensors order_edges(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst) {
    const c10::cuda::CUDAGuard guard(src.device());
    check_ids(src, dst, num_src, num_dst);
    const auto [in_dst, in_edge] = at::sort(dst.to(at::kInt), /*stable=*/true, /*dim=*/0, /*descending=*/false);
    const Tensor in_src = src.to(at::kInt).index_select(0, in_edge), edge = in_edge.to(at::kInt);
    const auto [out_src, out_pos] = at::sort(in_src, /*stable=*/true, /*dim=*/0, /*descending=*/false);
    return {starts(in_dst, num_dst),
            in_src,
            in_dst,
            edge,
            starts(out_src, num_src),
            out_pos.to(at::kInt),
            in_dst.index_select(0, out_pos),
            edge.index_select(0, out_pos)};
  }

  // Scratch may be freed before the kernels have run: the caching allocator reuses memory in the order of the stream.
  template <class Args>
  static void run(const Args& a, const Tensor& like) {
    const c10::cuda::CUDAGuard guard(like.device());
    const auto bytes = static_cast<int64_t>(cuda::workspace_bytes(a));
    const Tensor scratch = at::empty({bytes}, like.options().dtype(at::kByte));
    cuda::launch(a, scratch.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, CUDA, m) { register_operators<Cuda>(m); }

}  // namespace dgl_ptdnet
