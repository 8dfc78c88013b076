// Edges ordered by destination and by source: two stable counting sorts.
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "../edge_gate_args.h"

namespace dgl_ptdnet {
namespace {

using at::Tensor;

template <class Id>
void check_ids(const char* name, const Id* ids, int64_t edges, int64_t count) {
  Id low = 0, high = -1;
  for (int64_t e = 0; e < edges; ++e) low = std::min(low, ids[e]), high = std::max(high, ids[e]);
  if (low >= 0 && high < count) return;
  const Id* bad = std::find_if(ids, ids + edges, [=](Id id) { return id < 0 || id >= count; });
  id_out_of_range(name, *bad, bad - ids, count);
}

// Calls visit(item, place) for every item in stable order of its key; ptr [count + 1] gets where each key starts.
// Each thread takes a range of keys, so the places are those of a serial sort whatever the number of threads.
template <class Id, class Visit>
void counting_sort(const Id* keys, int64_t items, int64_t count, int32_t* ptr, const Visit& visit) {
  const int64_t threads = items < 65536 ? 1 : at::get_num_threads();
  std::fill(ptr, ptr + count + 1, 0);
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t past) {
    const int64_t low = count * first / threads, high = count * past / threads;
    for (int64_t i = 0; i < items; ++i)
      if (keys[i] >= low && keys[i] < high) ++ptr[keys[i] + 1];
  });
  for (int64_t k = 0; k < count; ++k) ptr[k + 1] += ptr[k];
  std::vector<int32_t> place(ptr, ptr + count);
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t past) {
    const auto key_at = [&](int64_t part) {  // parts of about equal numbers of items
      return part == threads ? count : std::lower_bound(ptr, ptr + count, items * part / threads) - ptr;
    };
    const int64_t low = key_at(first), high = key_at(past);
    for (int64_t i = 0; i < items; ++i)
      if (keys[i] >= low && keys[i] < high) visit(i, place[keys[i]]++);
  });
}

template <class Id>
void order_edges(const Tensor& src, const Tensor& dst, int64_t num_src, int64_t num_dst, Tensor* out) {
  const int64_t edges = src.size(0);
  const Id *s = src.const_data_ptr<Id>(), *d = dst.const_data_ptr<Id>();
  check_ids("src", s, edges, num_src);
  check_ids("dst", d, edges, num_dst);
  int32_t *in_ptr = out[0].mutable_data_ptr<int32_t>(), *in_src = out[1].mutable_data_ptr<int32_t>();
  int32_t *in_dst = out[2].mutable_data_ptr<int32_t>(), *in_edge = out[3].mutable_data_ptr<int32_t>();
  int32_t* out_pos = out[5].mutable_data_ptr<int32_t>();
  counting_sort(d, edges, num_dst, in_ptr, [=](int64_t e, int32_t position) {
    in_edge[position] = static_cast<int32_t>(e);
    in_src[position] = static_cast<int32_t>(s[e]);
    in_dst[position] = static_cast<int32_t>(d[e]);
  });
  counting_sort(in_src, edges, num_src, out[4].mutable_data_ptr<int32_t>(),
                [=](int64_t position, int32_t slot) { out_pos[slot] = static_cast<int32_t>(position); });
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> edge_index(const Tensor& src, const Tensor& dst,
                                                                      int64_t num_src, int64_t num_dst) {
  check_edge_list(src, dst, num_src, num_dst);
  const auto ints = src.options().dtype(at::kInt);
  const int64_t edges = src.size(0);
  Tensor out[6] = {empty({num_dst + 1}, ints), empty({edges}, ints),       empty({edges}, ints),
                   empty({edges}, ints),       empty({num_src + 1}, ints), empty({edges}, ints)};
  const Tensor s = src.contiguous(), d = dst.contiguous();
  if (src.scalar_type() == at::kInt) {
    order_edges<int32_t>(s, d, num_src, num_dst, out);
  } else {
    order_edges<int64_t>(s, d, num_src, num_dst, out);
  }
  return {out[0], out[1], out[2], out[3], out[4], out[5]};
}

}  // namespace

TORCH_LIBRARY_IMPL(dgl_ptdnet, CPU, m) { m.impl("edge_index", edge_index); }

}  // namespace dgl_ptdnet
