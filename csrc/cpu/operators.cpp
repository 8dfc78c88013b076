// Registers the operators for the CPU.
#include "../operators.h"

#include "../common_neighbours_op.h"

#include "device.h"

namespace dgl_ptdnet {

TORCH_LIBRARY_IMPL(dgl_ptdnet, CPU, m) {
  register_operators<Cpu>(m);
  m.impl("common_neighbours", common_neighbours<Cpu>);
}

}  // namespace dgl_ptdnet
