// Runs CUDA kernels on the CPU, for tests: the words of the CUDA language that kernels use, for g++.
// Every CUDA thread is a fiber. It gives way at barriers, warp collectives and atomics, so that a seed chooses the
// order in which threads of a few resident blocks meet there. What CUDA leaves undefined is an error here.
#pragma once

#include <math.h>
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emulation {

struct Options {
  uint64_t seed = 0;  // of the order of threads and blocks; 0: first come, first served
  int resident = 1;   // blocks that run at a time
};
extern Options options;

// Ends the launch: launch throws a std::runtime_error that names the thread.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

void run(dim3 grid, dim3 block, void (*body)(void*), void* context);

template <class... P>
struct Launch {
  void (*kernel)(P...);
  dim3 grid, block;

  template <class... A>
  void operator()(const A&... args) const {
    struct Call {
      void (*kernel)(P...);
      std::tuple<P...> args;
    } call{kernel, {args...}};
    run(grid, block, [](void* c) { std::apply(static_cast<Call*>(c)->kernel, static_cast<Call*>(c)->args); }, &call);
  }
};

// kernel<<<grid, block, shared, stream>>>, as translate.py spells it.
template <class... P, class Stream>
Launch<P...> launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t /*shared*/, Stream) {
  return {kernel, grid, block};
}

// A __shared__ variable of the running block, filled with 0xff; `key` tells variables apart.
void* shared(const void* key, size_t bytes);

void syncthreads();
void syncwarp(unsigned mask);
unsigned ballot(unsigned mask, bool predicate);
void shuffle(unsigned mask, int source, const void* value, void* result, size_t bytes);
int lane();
void give_way();
void fence();

// source(lane, first, last): the lane to read, within a segment of `width` lanes.
template <class T, class F>
T shuffle(unsigned mask, T value, int width, F source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  if (width < 1 || width > 32 || (width & (width - 1))) fail("a shuffle over %d lanes", width);
  const int first = lane() / width * width, wanted = source(lane(), first);
  T result;
  shuffle(mask, wanted < first || wanted >= first + width ? lane() : wanted, &value, &result, sizeof(T));
  return result;
}

template <class T>
T load(const T* from) {
  if (reinterpret_cast<uintptr_t>(from) % alignof(T)) fail("a misaligned load of %zu bytes", sizeof(T));
  return *from;
}

}  // namespace emulation

inline void __syncthreads() { emulation::syncthreads(); }
inline void __syncwarp(unsigned mask = ~0u) { emulation::syncwarp(mask); }
inline unsigned __ballot_sync(unsigned mask, int predicate) { return emulation::ballot(mask, predicate != 0); }
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return emulation::shuffle(mask, value, width, [=](int, int first) { return first + (source & (width - 1)); });
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  return emulation::shuffle(mask, value, width, [=](int lane, int) { return lane ^ bits; });
}

inline void __threadfence() { emulation::fence(); }
template <class T>
T atomicAdd(T* at, std::common_type_t<T> value) {
  emulation::give_way();
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicExch(T* at, std::common_type_t<T> value) {
  emulation::give_way();
  return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);
}

template <class T>
T __ldg(const T* from) {
  return emulation::load(from);
}
template <class T>
T __ldcg(const T* from) {
  return emulation::load(from);
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
using std::max;
using std::min;
