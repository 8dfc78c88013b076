// The instruction set that the kernels run on. A kernel is compiled for three of them.
#pragma once

#include "../core/types.h"

namespace dgl_ptdnet {

enum class Level { portable, avx2, avx512 };

// The best that this processor has; the environment variable DGL_PTDNET_CPU_LEVEL names another.
Level cpu_level();

const char* level_name(Level level);

// Declares what each level has for rows of a dtype: a table of kernels. Only `portable` has one for f64.
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

// The table of the level that this process runs on.
#if defined(__x86_64__)
#define PTD_KERNELS(function, dtype)                                                 \
  (dtype == Dtype::f64 || cpu_level() == Level::portable ? portable::function(dtype) \
   : cpu_level() == Level::avx512                        ? avx512::function(dtype)   \
                                                         : avx2::function(dtype))
#else
#define PTD_KERNELS(function, dtype) portable::function(dtype)
#endif

}  // namespace dgl_ptdnet
