#define PTD_LEVEL_AVX2
#include "aggregate_impl.h"
