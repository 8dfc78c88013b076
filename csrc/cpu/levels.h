// The levels: instruction sets that each kernel is compiled for. One of them is chosen when the process runs.
#pragma once

#include "../core/types.h"

namespace dgl_ptdnet {

enum class Level { portable, avx2, avx512 };

// The level that the environment variable DGL_PTDNET_CPU_LEVEL names, or else the best one of this processor.
Level cpu_level();

const char* level_name(Level level);

// Declares function(dtype), the table of kernels for rows of a dtype, at each level. Only `portable` has one for f64.
#define PTD_DECLARE_LEVELS(Table, function) \
  namespace avx512 {                        \
  const Table& function(Dtype);             \
  }                                         \
  namespace avx2 {                          \
  const Table& function(Dtype);             \
  }                                         \
  namespace portable {                      \
  const Table& function(Dtype);             \
  }

// The table of kernels at the level that this process runs on.
#if defined(__x86_64__)
#define PTD_KERNELS(function, dtype)                                                 \
  (dtype == Dtype::f64 || cpu_level() == Level::portable ? portable::function(dtype) \
   : cpu_level() == Level::avx512                        ? avx512::function(dtype)   \
                                                         : avx2::function(dtype))
#else
#define PTD_KERNELS(function, dtype) portable::function(dtype)
#endif

}  // namespace dgl_ptdnet
