// Common neighbours on a CPU: intersects two ascending lists.
#pragma once

#include "../common_neighbours.h"

namespace dgl_ptdnet {

// The first place in the ascending list[from, to) whose value is at least `wanted`, in log(place - from) steps.
inline int64_t gallop(const int32_t* list, int64_t from, int64_t to, int32_t wanted) {
  if (from == to || list[from] >= wanted) return from;
  int64_t below = from, step = 1;  // list[below] < wanted
  while (below + step < to && list[below + step] < wanted) below += step, step *= 2;
  int64_t past = below + step < to ? below + step : to;  // the place is in (below, past]
  while (past - below > 1) {
    const int64_t middle = below + (past - below) / 2;
    if (list[middle] < wanted) {
      below = middle;
    } else {
      past = middle;
    }
  }
  return past;
}

// Computes pairs [begin, end). If one node is a hub, its list is searched for each neighbour of the other node.
inline void common_neighbours(const CommonNeighbours& a, int64_t begin, int64_t end) {
  constexpr int64_t much_longer = 8;
  for (int64_t i = begin; i < end; ++i) {
    int64_t x = a.side.ptr[a.u[i]], y = a.side.ptr[a.v[i]], x_end = a.side.ptr[a.u[i] + 1],
            y_end = a.side.ptr[a.v[i] + 1];
    const bool x_long = x_end - x > much_longer * (y_end - y), y_long = y_end - y > much_longer * (x_end - x);
    double sum = 0;
    while (x < x_end && y < y_end) {
      const int32_t p = a.side.node[x], q = a.side.node[y];
      if (p < q) {
        x = x_long ? gallop(a.side.node, x, x_end, q) : x + 1;
      } else if (q < p) {
        y = y_long ? gallop(a.side.node, y, y_end, p) : y + 1;
      } else {  // every parallel edge counts
        double x_weight = 0, y_weight = 0;
        for (; x < x_end && a.side.node[x] == p; ++x) x_weight += a.weight[a.side.edge[x]];
        for (; y < y_end && a.side.node[y] == p; ++y) y_weight += a.weight[a.side.edge[y]];
        sum += x_weight * y_weight;
      }
    }
    a.out[i] = sum;
  }
}

}  // namespace dgl_ptdnet
