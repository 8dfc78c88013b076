#include "levels.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>

namespace dgl_ptdnet {
namespace {

Level best_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Level::avx512;
  if (avx2) return Level::avx2;  // every processor with AVX2 and FMA has F16C as well
#endif
  return Level::portable;
}

}  // namespace

const char* level_name(Level level) {
  return level == Level::avx512 ? "avx512" : level == Level::avx2 ? "avx2" : "portable";
}

Level cpu_level() {
  static const Level best = best_level();
  const char* wanted = std::getenv("DGL_PTDNET_CPU_LEVEL");
  if (!wanted || !*wanted) return best;
  for (Level level : {Level::portable, Level::avx2, Level::avx512}) {
    if (std::strcmp(wanted, level_name(level)) == 0) {
      TORCH_CHECK(level <= best, "DGL_PTDNET_CPU_LEVEL=", wanted, ", but this processor has only ", level_name(best),
                  ". Set portable", best == Level::avx2 ? " or avx2" : "", ", or unset it");
      return level;
    }
  }
  TORCH_CHECK_VALUE(false, "DGL_PTDNET_CPU_LEVEL must be portable, avx2 or avx512; got ", wanted);
}

}  // namespace dgl_ptdnet
