// The instruction set that the kernels run on.
#pragma once

namespace dgl_ptdnet {

enum class Level { portable, avx2, avx512 };

// The best that this processor has; the environment variable DGL_PTDNET_CPU_LEVEL names another.
Level cpu_level();

const char* level_name(Level level);

}  // namespace dgl_ptdnet
