#define PTD_LEVEL_AVX512
#include "aggregate_impl.h"
