#include "edge_gate_impl.h"
