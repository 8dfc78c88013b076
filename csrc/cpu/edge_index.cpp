// Makes the index on a CPU.
#include "edge_index_impl.h"

#include "device.h"

namespace dgl_ptdnet {
namespace {

template <class Id>
void check_ids(const char* name, const Id* ids, int64_t edges, int64_t count) {
  const int64_t bad = find_bad_id(ids, edges, count);
  if (bad >= 0) id_out_of_range(name, ids[bad], bad, count);
}

template <class Id>
void check_and_order(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst,
                     const EdgeIndexArrays& out) {
  const int64_t edges = src.size(0), threads = edges < 65536 ? 1 : at::get_num_threads();
  const Id *s = src.const_data_ptr<Id>(), *d = dst.const_data_ptr<Id>();
  check_ids("src", s, edges, num_src);
  check_ids("dst", d, edges, num_dst);
  order_edges(s, d, edges, num_src, num_dst, out, threads, Threads());
}

}  // namespace

IndexTensors Cpu::order_edges(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst) {
  const auto ints = src.options().dtype(at::kInt);
  const auto of_edges = [&] { return empty(src.sizes(), ints); };
  const IndexTensors made{empty({num_dst + 1}, ints), of_edges(), of_edges(), of_edges(),
                          empty({num_src + 1}, ints), of_edges(), of_edges(), of_edges()};
  const EdgeIndexArrays arrays = std::apply(
      [](const auto&... tensors) { return EdgeIndexArrays{tensors.template mutable_data_ptr<int32_t>()...}; }, made);
  const Tensor s = src.contiguous(), d = dst.contiguous();
  src.scalar_type() == at::kInt ? check_and_order<int32_t>(s, d, num_src, num_dst, arrays)
                                : check_and_order<int64_t>(s, d, num_src, num_dst, arrays);
  return made;
}

}  // namespace dgl_ptdnet
