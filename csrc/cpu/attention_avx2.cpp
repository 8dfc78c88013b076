#define PTD_LEVEL_AVX2
#include "attention_impl.h"
