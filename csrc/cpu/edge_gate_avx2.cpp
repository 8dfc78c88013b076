#define PTD_LEVEL_AVX2
#include "edge_gate_impl.h"
