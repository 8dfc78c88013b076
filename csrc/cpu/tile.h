// Wide rows are gathered in parts of their columns: rows that together outgrow a processor's caches fit them in parts.
#pragma once

#include <cstdint>

namespace dgl_ptdnet {

// The arguments of a part: some of the heads, or some columns of one. Pointers lead to its first number. The rows that
// edges lead to lie by themselves; the other arrays go on with the other parts.
template <class Args>
struct Tile : Args {
  int64_t row_heads, row_width, z_stride;  // from row to row of those: of numbers by head, of results, of gates
};

}  // namespace dgl_ptdnet
