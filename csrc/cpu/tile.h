// Arguments for a part of the columns. Rows that together are too large for the processor's caches are gathered in
// parts of their columns that fit.
#pragma once

#include <cstdint>

namespace dgl_ptdnet {

// The arguments for a part: some of the heads, or some columns of one. h is a packed copy of the part; the other
// pointers point into the whole arrays.
template <class Args>
struct Tile : Args {
  int64_t row_heads, row_width, z_stride;  // strides between rows, in elements: numbers by head, results, gates
};

}  // namespace dgl_ptdnet
