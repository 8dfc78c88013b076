#define PTD_LEVEL_AVX512
#include "edge_gate_impl.h"
