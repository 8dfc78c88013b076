// Splits wide rows into parts of columns and packs a copy of each; see tile.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "../core/memory.h"
#include "tile.h"

namespace dgl_ptdnet {

// Some whole heads, or some columns of one head.
struct Part {
  int64_t head, heads, column, feats;

  // The arguments for this part; the caller moves the pointers.
  template <class Args>
  Tile<Args> of(const Args& all, int64_t z_heads) const {
    Tile<Args> tile{all, all.heads, all.heads * all.feats, z_heads};
    tile.heads = heads, tile.feats = feats;
    return tile;
  }
};

template <class T>
void move(T*& pointer, int64_t bytes) {
  if (pointer) pointer = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(pointer) + bytes);
}

// Calls run(part, its rows) for each part of rows [N, heads * feats], which are gathered over `edges` edges. The split
// depends on sizes alone, because it changes the last bits of sums.
template <class Run>
void for_parts(const at::Tensor& rows, int64_t edges, int64_t heads, int64_t feats, bool whole_heads, const Run& run) {
  constexpr int64_t max_bytes = int64_t{24} << 20, part_bytes = 512, line_bytes = 64;
  const int64_t count = rows.size(0), element = rows.element_size();
  int64_t step_heads = heads, step = feats;
  if (count * heads * feats * element > max_bytes && edges >= 8 * count) {
    const int64_t max_columns = part_bytes / element, line = line_bytes / element;
    const int64_t parts = whole_heads ? 1 : (feats + max_columns - 1) / max_columns;  // of a head
    step_heads = std::clamp<int64_t>(max_columns / feats, 1, heads);
    step = ((feats + parts - 1) / parts + line - 1) / line * line;
  }
  for (int64_t head = 0; head < heads; head += step_heads)
    for (int64_t column = 0; column < feats; column += step) {
      const Part part{head, std::min(step_heads, heads - head), column, std::min(step, feats - column)};
      if (part.heads == heads && part.feats == feats) return run(part, rows);
      const at::Tensor packed = empty({count, part.heads * part.feats}, rows.options());
      packed.copy_(rows.narrow(1, head * feats + column, part.heads * part.feats));
      run(part, packed);
    }
}

}  // namespace dgl_ptdnet
