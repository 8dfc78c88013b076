// The vector operations that the kernels use, for each instruction set. A file is compiled for one level: it defines
// PTD_LEVEL_AVX512, PTD_LEVEL_AVX2 or neither before it includes this file.
//
// Every lane does the same arithmetic, and sums over lanes add the same pairs of lanes for every edge. So an edge's
// result does not depend on its lane.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "../core/types.h"

#if defined(PTD_LEVEL_AVX512)
#include <immintrin.h>
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define PTD_LEVEL avx512
#elif defined(PTD_LEVEL_AVX2)
#include <immintrin.h>
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#define PTD_LEVEL avx2
#else
#define PTD_LEVEL portable
#endif

#define PTD_INLINE inline __attribute__((always_inline))

namespace dgl_ptdnet::PTD_LEVEL {

PTD_INLINE void prefetch(const void* x) { __builtin_prefetch(x, 0, 3); }

// Any number of lanes of type A in plain C++: the portable level, and double at every level.
template <class A>
struct Plain {
  using Acc = A;
  static constexpr int width = 8;
  A v[width];

#define PTD_LANES for (int i = 0; i < width; ++i)
  static PTD_INLINE Plain splat(A x) {
    Plain r;
    PTD_LANES r.v[i] = x;
    return r;
  }
  template <class Row>
  static PTD_INLINE Plain load(const Row* x) {
    Plain r;
    PTD_LANES r.v[i] = static_cast<A>(x[i]);
    return r;
  }
  template <class Row>
  static PTD_INLINE Plain load(const Row* x, int n) {
    Plain r;
    PTD_LANES r.v[i] = i < n ? static_cast<A>(x[i]) : A(0);
    return r;
  }
  PTD_INLINE void store(A* x) const { PTD_LANES x[i] = v[i]; }
  template <class Row>
  PTD_INLINE void store(Row* x, int n) const {
    for (int i = 0; i < n; ++i) x[i] = static_cast<Row>(v[i]);
  }
  PTD_INLINE Plain operator+(Plain o) const {
    PTD_LANES o.v[i] = v[i] + o.v[i];
    return o;
  }
  PTD_INLINE Plain operator*(Plain o) const {
    PTD_LANES o.v[i] = v[i] * o.v[i];
    return o;
  }
  // Returns *this. In the other classes it forces the value into a register, else the compiler loads it for each use.
  PTD_INLINE Plain pinned() const { return *this; }
  // this * a + b
  PTD_INLINE Plain fma(Plain a, Plain b) const {
    PTD_LANES a.v[i] = v[i] * a.v[i] + b.v[i];
    return a;
  }
  PTD_INLINE Plain relu() const {  // NaN stays NaN
    Plain r;
    PTD_LANES r.v[i] = v[i] < A(0) ? A(0) : v[i];
    return r;
  }
  PTD_INLINE uint32_t positive() const {
    uint32_t bits = 0;
    PTD_LANES bits |= static_cast<uint32_t>(v[i] > A(0)) << i;
    return bits;
  }
  PTD_INLINE uint32_t nonzero() const {
    uint32_t bits = 0;
    PTD_LANES bits |= static_cast<uint32_t>(v[i] != A(0)) << i;
    return bits;
  }
  PTD_INLINE Plain add_where(uint32_t bits, Plain a) const {
    Plain r;
    PTD_LANES r.v[i] = bits >> i & 1 ? v[i] + a.v[i] : v[i];
    return r;
  }
  static PTD_INLINE Plain select(uint32_t bits, Plain a, Plain b) {
    PTD_LANES a.v[i] = bits >> i & 1 ? a.v[i] : b.v[i];
    return a;
  }
  static PTD_INLINE A sum(const Plain& a) {
    return ((a.v[0] + a.v[4]) + (a.v[1] + a.v[5])) + ((a.v[2] + a.v[6]) + (a.v[3] + a.v[7]));
  }
  static PTD_INLINE A max(const Plain& a) {
    A highest = a.v[0];
    PTD_LANES highest = a.v[i] > highest ? a.v[i] : highest;
    return highest;
  }
  // lane j: the sum of the lanes of a[j]
  static PTD_INLINE Plain sums(const Plain (&a)[width]) {
    Plain r;
    PTD_LANES r.v[i] = sum(a[i]);
    return r;
  }
  // Where a > b, or a is NaN and b is not.
  static PTD_INLINE uint32_t beats(const Plain& a, const Plain& b) {
    uint32_t bits = 0;
    PTD_LANES bits |= static_cast<uint32_t>(!(a.v[i] <= b.v[i]) && b.v[i] == b.v[i]) << i;
    return bits;
  }
  PTD_INLINE Plain exp() const {
    Plain r;
    PTD_LANES r.v[i] = std::exp(v[i]);
    return r;
  }
  PTD_INLINE Plain log() const {
    Plain r;
    PTD_LANES r.v[i] = std::log(v[i]);
    return r;
  }
  // 1 / (1 + exp(-x))
  PTD_INLINE Plain sigmoid() const {
    Plain r;
    PTD_LANES r.v[i] = A(1) / (A(1) + std::exp(-v[i]));
    return r;
  }
  PTD_INLINE Plain operator/(Plain o) const {
    PTD_LANES o.v[i] = v[i] / o.v[i];
    return o;
  }
  PTD_INLINE Plain clip01() const {  // NaN stays NaN
    Plain r;
    PTD_LANES r.v[i] = v[i] < A(0) ? A(0) : v[i] > A(1) ? A(1) : v[i];
    return r;
  }
  static PTD_INLINE Plain from_bits(const uint32_t* x) {  // exact for integers below 2^24
    Plain r;
    PTD_LANES r.v[i] = static_cast<A>(static_cast<int32_t>(x[i]));
    return r;
  }
#undef PTD_LANES
};

#if defined(PTD_LEVEL_AVX512) || defined(PTD_LEVEL_AVX2)

// Cephes' logf and expf: exact to about one unit in the last place in the ranges that a gate needs.
template <class V>
PTD_INLINE V log_polynomial(V m, V exponent) {  // of m in [sqrt(1/2), sqrt(2)), times 2^exponent
  const V x = m + V::splat(-1.0f), x2 = x * x;
  V y = V::splat(7.0376836292e-2f);
  y = y.fma(x, V::splat(-1.1514610310e-1f));
  y = y.fma(x, V::splat(1.1676998740e-1f));
  y = y.fma(x, V::splat(-1.2420140846e-1f));
  y = y.fma(x, V::splat(1.4249322787e-1f));
  y = y.fma(x, V::splat(-1.6668057665e-1f));
  y = y.fma(x, V::splat(2.0000714765e-1f));
  y = y.fma(x, V::splat(-2.4999993993e-1f));
  y = y.fma(x, V::splat(3.3333331174e-1f));
  y = y * x * x2;
  y = exponent.fma(V::splat(-2.12194440e-4f), y);
  y = x2.fma(V::splat(-0.5f), y);
  return exponent.fma(V::splat(0.693359375f), x + y);
}

template <class V>
PTD_INLINE V exp_polynomial(V x) {  // of x in [-ln(2)/2, ln(2)/2]
  V y = V::splat(1.9875691500e-4f);
  y = y.fma(x, V::splat(1.3981999507e-3f));
  y = y.fma(x, V::splat(8.3334519073e-3f));
  y = y.fma(x, V::splat(4.1665795894e-2f));
  y = y.fma(x, V::splat(1.6666665459e-1f));
  y = y.fma(x, V::splat(5.0000001201e-1f));
  return y.fma(x * x, x + V::splat(1.0f));
}

#endif

#if defined(PTD_LEVEL_AVX512)

struct Ints {  // unsigned 32-bit lanes, for Philox and for edge numbers
  static constexpr int width = 16;
  __m512i v;
  static PTD_INLINE Ints load(const int32_t* x, int n) {
    return {_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << n) - 1), x)};
  }
  PTD_INLINE void store(int32_t* x, int n) const {
    _mm512_mask_storeu_epi32(x, static_cast<__mmask16>((1u << n) - 1), v);
  }
  static PTD_INLINE Ints select(uint32_t bits, Ints a, Ints b) {
    return {_mm512_mask_blend_epi32(static_cast<__mmask16>(bits), b.v, a.v)};
  }
  PTD_INLINE uint32_t equal(Ints o) const { return _mm512_cmpeq_epi32_mask(v, o.v); }
  static PTD_INLINE Ints load(const uint32_t* x) { return {_mm512_loadu_si512(x)}; }
  static PTD_INLINE Ints splat(uint32_t x) { return {_mm512_set1_epi32(static_cast<int>(x))}; }
  PTD_INLINE void store(uint32_t* x) const { _mm512_storeu_si512(x, v); }
  PTD_INLINE Ints operator^(Ints o) const { return {_mm512_xor_si512(v, o.v)}; }
  PTD_INLINE void multiply(uint32_t factor, Ints& high, Ints& low) const {
    const __m512i f = _mm512_set1_epi32(static_cast<int>(factor));
    const __m512i even = _mm512_mul_epu32(v, f), odd = _mm512_mul_epu32(_mm512_srli_epi64(v, 32), f);
    high.v = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_CDAB);
    low.v = _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CDAB);
  }
};

struct Vec {
  using Acc = float;
  static constexpr int width = 16;
  __m512 v;

  static PTD_INLINE Vec splat(float x) { return {_mm512_set1_ps(x)}; }
  static PTD_INLINE __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1); }
  static PTD_INLINE Vec load(const float* x) { return {_mm512_loadu_ps(x)}; }
  static PTD_INLINE Vec load(const float* x, int n) { return {_mm512_maskz_loadu_ps(first(n), x)}; }
  static PTD_INLINE Vec widen(__m256i x, const c10::BFloat16*) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
  }
  static PTD_INLINE Vec widen(__m256i x, const c10::Half*) { return {_mm512_cvtph_ps(x)}; }
  template <class Row>
  static PTD_INLINE Vec load(const Row* x) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)), x);
  }
  template <class Row>
  static PTD_INLINE Vec load(const Row* x, int n) {
    return widen(_mm256_maskz_loadu_epi16(first(n), x), x);
  }
  PTD_INLINE void store(float* x) const { _mm512_storeu_ps(x, v); }
  PTD_INLINE void store(float* x, int n) const { _mm512_mask_storeu_ps(x, first(n), v); }
  PTD_INLINE __m256i narrow(const c10::BFloat16*) const {  // to the nearest, ties to even
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i nan = _mm512_set1_epi32(0x7fc00000);
    return _mm512_cvtepi32_epi16(
        _mm512_srli_epi32(_mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), up, nan), 16));
  }
  PTD_INLINE __m256i narrow(const c10::Half*) const { return _mm512_cvtps_ph(v, 0); }
  template <class Row>
  PTD_INLINE void store(Row* x, int n) const {
    _mm256_mask_storeu_epi16(x, first(n), narrow(x));
  }
  PTD_INLINE Vec pinned() const {
    __m512 x = v;
    asm("" : "+v"(x));
    return {x};
  }
  PTD_INLINE Vec operator+(Vec o) const { return {_mm512_add_ps(v, o.v)}; }
  PTD_INLINE Vec operator*(Vec o) const { return {_mm512_mul_ps(v, o.v)}; }
  PTD_INLINE Vec operator/(Vec o) const { return {_mm512_div_ps(v, o.v)}; }
  PTD_INLINE Vec fma(Vec a, Vec b) const { return {_mm512_fmadd_ps(v, a.v, b.v)}; }
  PTD_INLINE Vec relu() const { return {_mm512_max_ps(_mm512_setzero_ps(), v)}; }  // second operand: NaN stays
  PTD_INLINE uint32_t positive() const { return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GT_OQ); }
  PTD_INLINE uint32_t nonzero() const { return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ); }
  PTD_INLINE Vec add_where(uint32_t bits, Vec a) const {
    return {_mm512_mask_add_ps(v, static_cast<__mmask16>(bits), v, a.v)};
  }
  static PTD_INLINE Vec select(uint32_t bits, Vec a, Vec b) {
    return {_mm512_mask_blend_ps(static_cast<__mmask16>(bits), b.v, a.v)};
  }
  static PTD_INLINE uint32_t beats(Vec a, Vec b) {
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(b.v, b.v, _CMP_ORD_Q), a.v, b.v, _CMP_NLE_UQ);
  }
  static PTD_INLINE float sum(Vec a) { return _mm512_reduce_add_ps(a.v); }
  static PTD_INLINE float max(Vec a) { return _mm512_reduce_max_ps(a.v); }
  static PTD_INLINE __m512 sum4(const Vec* a) {  // 128-bit lane l: sums of four within lane l of a[0..3]
    const __m512 s = _mm512_add_ps(_mm512_unpacklo_ps(a[0].v, a[1].v), _mm512_unpackhi_ps(a[0].v, a[1].v));
    const __m512 t = _mm512_add_ps(_mm512_unpacklo_ps(a[2].v, a[3].v), _mm512_unpackhi_ps(a[2].v, a[3].v));
    return _mm512_add_ps(_mm512_shuffle_ps(s, t, 0x44), _mm512_shuffle_ps(s, t, 0xee));
  }
  static PTD_INLINE Vec sums(const Vec (&a)[width]) {
    const __m512 r0 = sum4(a), r1 = sum4(a + 4), r2 = sum4(a + 8), r3 = sum4(a + 12);
    const __m512 s = _mm512_add_ps(_mm512_shuffle_f32x4(r0, r1, 0x44), _mm512_shuffle_f32x4(r0, r1, 0xee));
    const __m512 t = _mm512_add_ps(_mm512_shuffle_f32x4(r2, r3, 0x44), _mm512_shuffle_f32x4(r2, r3, 0xee));
    return {_mm512_add_ps(_mm512_shuffle_f32x4(s, t, 0x88), _mm512_shuffle_f32x4(s, t, 0xdd))};
  }
  PTD_INLINE Vec log() const {  // of normal positive numbers
    const __m512i i = _mm512_castps_si512(v);
    const __m512i e = _mm512_srai_epi32(_mm512_sub_epi32(i, _mm512_set1_epi32(0x3f3504f3)), 23);
    const __m512i m = _mm512_sub_epi32(i, _mm512_slli_epi32(e, 23));
    return log_polynomial(Vec{_mm512_castsi512_ps(m)}, Vec{_mm512_cvtepi32_ps(e)});
  }
  PTD_INLINE Vec exp() const {  // numbers above 88 count as 88
    __m512 x = _mm512_min_ps(_mm512_set1_ps(88.0f), _mm512_max_ps(_mm512_set1_ps(-150.0f), v));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
    x = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    x = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), x);
    return {_mm512_scalef_ps(exp_polynomial(Vec{x}).v, n)};
  }
  PTD_INLINE Vec sigmoid() const {
    __m512 x = _mm512_sub_ps(_mm512_setzero_ps(), v);
    x = _mm512_min_ps(_mm512_set1_ps(88.0f), _mm512_max_ps(_mm512_set1_ps(-87.0f), x));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
    x = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    x = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), x);
    const __m512 e = _mm512_scalef_ps(exp_polynomial(Vec{x}).v, n);
    const __m512 one = _mm512_set1_ps(1.0f);
    return {_mm512_div_ps(one, _mm512_add_ps(one, e))};
  }
  PTD_INLINE Vec clip01() const { return {_mm512_min_ps(_mm512_set1_ps(1.0f), _mm512_max_ps(_mm512_setzero_ps(), v))}; }
  static PTD_INLINE Vec from_bits(const uint32_t* x) { return {_mm512_cvtepi32_ps(_mm512_loadu_si512(x))}; }
};

#elif defined(PTD_LEVEL_AVX2)

struct Ints {
  static constexpr int width = 8;
  __m256i v;
  static PTD_INLINE __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static PTD_INLINE Ints load(const int32_t* x, int n) { return {_mm256_maskload_epi32(x, first(n))}; }
  PTD_INLINE void store(int32_t* x, int n) const { _mm256_maskstore_epi32(x, first(n), v); }
  static PTD_INLINE Ints select(uint32_t bits, Ints a, Ints b) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i lanes = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), bit), bit);
    return {_mm256_blendv_epi8(b.v, a.v, lanes)};
  }
  PTD_INLINE uint32_t equal(Ints o) const {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(v, o.v))));
  }
  static PTD_INLINE Ints load(const uint32_t* x) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))}; }
  static PTD_INLINE Ints splat(uint32_t x) { return {_mm256_set1_epi32(static_cast<int>(x))}; }
  PTD_INLINE void store(uint32_t* x) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(x), v); }
  PTD_INLINE Ints operator^(Ints o) const { return {_mm256_xor_si256(v, o.v)}; }
  PTD_INLINE void multiply(uint32_t factor, Ints& high, Ints& low) const {
    const __m256i f = _mm256_set1_epi32(static_cast<int>(factor));
    const __m256i even = _mm256_mul_epu32(v, f), odd = _mm256_mul_epu32(_mm256_srli_epi64(v, 32), f);
    high.v = _mm256_blend_epi32(odd, _mm256_shuffle_epi32(even, 0xb1), 0x55);
    low.v = _mm256_blend_epi32(even, _mm256_shuffle_epi32(odd, 0xb1), 0xaa);
  }
};

struct Vec {
  using Acc = float;
  static constexpr int width = 8;
  __m256 v;

  static PTD_INLINE Vec splat(float x) { return {_mm256_set1_ps(x)}; }
  static PTD_INLINE __m256i lanes() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
  static PTD_INLINE __m256i first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes()); }
  static PTD_INLINE Vec load(const float* x) { return {_mm256_loadu_ps(x)}; }
  static PTD_INLINE Vec load(const float* x, int n) { return {_mm256_maskload_ps(x, first(n))}; }
  static PTD_INLINE Vec widen(__m128i x, const c10::BFloat16*) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16))};
  }
  static PTD_INLINE Vec widen(__m128i x, const c10::Half*) { return {_mm256_cvtph_ps(x)}; }
  template <class Row>
  static PTD_INLINE Vec load(const Row* x) {
    return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)), x);
  }
  template <class Row>
  static PTD_INLINE Vec load(const Row* x, int n) {
    if (n == width) return load(x);
    alignas(16) uint16_t part[8] = {};
    std::memcpy(part, x, 2 * n);
    return widen(_mm_load_si128(reinterpret_cast<const __m128i*>(part)), x);
  }
  PTD_INLINE void store(float* x) const { _mm256_storeu_ps(x, v); }
  PTD_INLINE void store(float* x, int n) const { _mm256_maskstore_ps(x, first(n), v); }
  PTD_INLINE __m128i narrow(const c10::BFloat16*) const {  // to the nearest, ties to even
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i r = _mm256_srli_epi32(_mm256_blendv_epi8(up, _mm256_set1_epi32(0x7fc00000), nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
  }
  PTD_INLINE __m128i narrow(const c10::Half*) const { return _mm256_cvtps_ph(v, 0); }
  template <class Row>
  PTD_INLINE void store(Row* x, int n) const {
    alignas(16) uint16_t part[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(part), narrow(x));
    std::memcpy(static_cast<void*>(x), part, 2 * n);
  }
  PTD_INLINE Vec pinned() const {
    __m256 x = v;
    asm("" : "+x"(x));
    return {x};
  }
  PTD_INLINE Vec operator+(Vec o) const { return {_mm256_add_ps(v, o.v)}; }
  PTD_INLINE Vec operator*(Vec o) const { return {_mm256_mul_ps(v, o.v)}; }
  PTD_INLINE Vec operator/(Vec o) const { return {_mm256_div_ps(v, o.v)}; }
  PTD_INLINE Vec fma(Vec a, Vec b) const { return {_mm256_fmadd_ps(v, a.v, b.v)}; }
  PTD_INLINE Vec relu() const { return {_mm256_max_ps(_mm256_setzero_ps(), v)}; }  // second operand: NaN stays
  PTD_INLINE uint32_t positive() const {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ)));
  }
  PTD_INLINE uint32_t nonzero() const {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ)));
  }
  static PTD_INLINE __m256 spread(uint32_t bits) {  // a bit to a lane
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), bit), bit));
  }
  PTD_INLINE Vec add_where(uint32_t bits, Vec a) const { return {_mm256_add_ps(v, _mm256_and_ps(spread(bits), a.v))}; }
  static PTD_INLINE Vec select(uint32_t bits, Vec a, Vec b) { return {_mm256_blendv_ps(b.v, a.v, spread(bits))}; }
  static PTD_INLINE uint32_t beats(Vec a, Vec b) {
    const __m256 both = _mm256_and_ps(_mm256_cmp_ps(a.v, b.v, _CMP_NLE_UQ), _mm256_cmp_ps(b.v, b.v, _CMP_ORD_Q));
    return static_cast<uint32_t>(_mm256_movemask_ps(both));
  }
  static PTD_INLINE float sum(Vec a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static PTD_INLINE float max(Vec a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
  static PTD_INLINE __m256 sum4(const Vec* a) {
    const __m256 s = _mm256_add_ps(_mm256_unpacklo_ps(a[0].v, a[1].v), _mm256_unpackhi_ps(a[0].v, a[1].v));
    const __m256 t = _mm256_add_ps(_mm256_unpacklo_ps(a[2].v, a[3].v), _mm256_unpackhi_ps(a[2].v, a[3].v));
    return _mm256_add_ps(_mm256_shuffle_ps(s, t, 0x44), _mm256_shuffle_ps(s, t, 0xee));
  }
  static PTD_INLINE Vec sums(const Vec (&a)[width]) {
    const __m256 r0 = sum4(a), r1 = sum4(a + 4);
    return {_mm256_add_ps(_mm256_permute2f128_ps(r0, r1, 0x20), _mm256_permute2f128_ps(r0, r1, 0x31))};
  }
  PTD_INLINE Vec log() const {  // of normal positive numbers
    const __m256i i = _mm256_castps_si256(v);
    const __m256i e = _mm256_srai_epi32(_mm256_sub_epi32(i, _mm256_set1_epi32(0x3f3504f3)), 23);
    const __m256i m = _mm256_sub_epi32(i, _mm256_slli_epi32(e, 23));
    return log_polynomial(Vec{_mm256_castsi256_ps(m)}, Vec{_mm256_cvtepi32_ps(e)});
  }
  PTD_INLINE Vec exp() const {  // numbers above 88 count as 88; 0 where the result is subnormal
    __m256 x = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(_mm256_set1_ps(-87.0f), v));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), 0x08);
    x = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    x = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), x);
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    const __m256 e = _mm256_mul_ps(exp_polynomial(Vec{x}).v, _mm256_castsi256_ps(power));
    return {_mm256_andnot_ps(_mm256_cmp_ps(v, _mm256_set1_ps(-87.0f), _CMP_LT_OQ), e)};
  }
  PTD_INLINE Vec sigmoid() const {
    __m256 x = _mm256_sub_ps(_mm256_setzero_ps(), v);
    x = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(_mm256_set1_ps(-87.0f), x));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), 0x08);
    x = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    x = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), x);
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    const __m256 e = _mm256_mul_ps(exp_polynomial(Vec{x}).v, _mm256_castsi256_ps(power));
    const __m256 one = _mm256_set1_ps(1.0f);
    return {_mm256_div_ps(one, _mm256_add_ps(one, e))};
  }
  PTD_INLINE Vec clip01() const { return {_mm256_min_ps(_mm256_set1_ps(1.0f), _mm256_max_ps(_mm256_setzero_ps(), v))}; }
  static PTD_INLINE Vec from_bits(const uint32_t* x) {
    return {_mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)))};
  }
};

#else

struct Ints {
  static constexpr int width = 8;
  uint32_t v[width];
#define PTD_LANES for (int i = 0; i < width; ++i)
  static PTD_INLINE Ints load(const uint32_t* x) {
    Ints r;
    PTD_LANES r.v[i] = x[i];
    return r;
  }
  static PTD_INLINE Ints splat(uint32_t x) {
    Ints r;
    PTD_LANES r.v[i] = x;
    return r;
  }
  static PTD_INLINE Ints load(const int32_t* x, int n) {
    Ints r;
    PTD_LANES r.v[i] = i < n ? static_cast<uint32_t>(x[i]) : 0;
    return r;
  }
  PTD_INLINE void store(uint32_t* x) const { PTD_LANES x[i] = v[i]; }
  PTD_INLINE void store(int32_t* x, int n) const {
    for (int i = 0; i < n; ++i) x[i] = static_cast<int32_t>(v[i]);
  }
  static PTD_INLINE Ints select(uint32_t bits, Ints a, Ints b) {
    PTD_LANES a.v[i] = bits >> i & 1 ? a.v[i] : b.v[i];
    return a;
  }
  PTD_INLINE uint32_t equal(Ints o) const {
    uint32_t bits = 0;
    PTD_LANES bits |= static_cast<uint32_t>(v[i] == o.v[i]) << i;
    return bits;
  }
  PTD_INLINE Ints operator^(Ints o) const {
    PTD_LANES o.v[i] ^= v[i];
    return o;
  }
  PTD_INLINE void multiply(uint32_t factor, Ints& high, Ints& low) const {
    PTD_LANES {
      const uint64_t product = static_cast<uint64_t>(v[i]) * factor;
      high.v[i] = static_cast<uint32_t>(product >> 32);
      low.v[i] = static_cast<uint32_t>(product);
    }
  }
#undef PTD_LANES
};

using Vec = Plain<float>;

#endif

// The table of kernels for rows of a dtype. Sanitized tests define PTD_ONLY_F32, as the other dtypes compile slowly.
template <template <class V, class Row> class Kernels>
const auto& table_for([[maybe_unused]] Dtype dtype) {
#if !defined(PTD_ONLY_F32)
#if !defined(PTD_LEVEL_AVX512) && !defined(PTD_LEVEL_AVX2)
  if (dtype == Dtype::f64) return Kernels<Plain<double>, double>::table;
#endif
  if (dtype == Dtype::bf16) return Kernels<Vec, c10::BFloat16>::table;
  if (dtype == Dtype::f16) return Kernels<Vec, c10::Half>::table;
#endif
  return Kernels<Vec, float>::table;
}

}  // namespace dgl_ptdnet::PTD_LEVEL
