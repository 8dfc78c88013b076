// Orders edges by destination and by source with two stable counting sorts. `parallel(count, grain, work)` calls
// work(begin, end) for parts of 0 .. count - 1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dgl_ptdnet {

// The arrays of an EdgeIndexView, to be filled.
struct EdgeIndexArrays {
  int32_t *in_ptr, *in_src, *in_dst, *in_edge, *out_ptr, *out_pos, *out_dst, *out_edge;
};

// The first edge whose id is not in 0 .. count - 1, or -1.
template <class Id>
int64_t find_bad_id(const Id* ids, int64_t edges, int64_t count) {
  Id low = 0, high = -1;
  for (int64_t e = 0; e < edges; ++e) low = std::min(low, ids[e]), high = std::max(high, ids[e]);
  if (low >= 0 && high < count) return -1;
  return std::find_if(ids, ids + edges, [=](Id id) { return id < 0 || id >= count; }) - ids;
}

// Calls visit(item, place) for every item, where place is its place in the stable order by key; ptr [count + 1] becomes
// the first place of each key. Each thread takes a range of keys, so the places do not depend on the number of threads.
template <class Id, class Parallel, class Visit>
void counting_sort(const Id* keys, int64_t items, int64_t count, int32_t* ptr, int64_t threads,
                   const Parallel& parallel, const Visit& visit) {
  std::fill(ptr, ptr + count + 1, 0);
  parallel(threads, 1, [&](int64_t first, int64_t past) {
    const int64_t low = count * first / threads, high = count * past / threads;
    for (int64_t i = 0; i < items; ++i)
      if (keys[i] >= low && keys[i] < high) ++ptr[keys[i] + 1];
  });
  for (int64_t k = 0; k < count; ++k) ptr[k + 1] += ptr[k];
  std::vector<int32_t> place(ptr, ptr + count);
  parallel(threads, 1, [&](int64_t first, int64_t past) {
    const auto key_at = [&](int64_t part) {  // so that parts have about equal numbers of items
      return part == threads ? count : std::lower_bound(ptr, ptr + count, items * part / threads) - ptr;
    };
    const int64_t low = key_at(first), high = key_at(past);
    for (int64_t i = 0; i < items; ++i)
      if (keys[i] >= low && keys[i] < high) visit(i, place[keys[i]]++);
  });
}

template <class Id, class Parallel>
void order_edges(const Id* src, const Id* dst, int64_t edges, int64_t num_src, int64_t num_dst,
                 const EdgeIndexArrays& out, int64_t threads, const Parallel& parallel) {
  counting_sort(dst, edges, num_dst, out.in_ptr, threads, parallel, [=](int64_t e, int32_t position) {
    out.in_edge[position] = static_cast<int32_t>(e);
    out.in_src[position] = static_cast<int32_t>(src[e]);
    out.in_dst[position] = static_cast<int32_t>(dst[e]);
  });
  counting_sort(out.in_src, edges, num_src, out.out_ptr, threads, parallel, [=](int64_t position, int32_t slot) {
    out.out_pos[slot] = static_cast<int32_t>(position);
    out.out_dst[slot] = out.in_dst[position];
    out.out_edge[slot] = out.in_edge[position];
  });
}

}  // namespace dgl_ptdnet
