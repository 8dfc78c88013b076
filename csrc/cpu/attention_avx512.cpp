#define PTD_LEVEL_AVX512
#include "attention_impl.h"
