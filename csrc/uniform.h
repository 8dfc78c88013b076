// The arguments of the kernels that draw uniform numbers, as plain pointers.
#pragma once

#include "core/types.h"

namespace dgl_ptdnet {

struct Uniform {
  const int64_t* noise;     // [2] seed and offset
  const int64_t* edge_ids;  // [edges]
  int64_t edges;
  // outputs
  float* out;  // [edges] in (0, 1)
};

}  // namespace dgl_ptdnet
