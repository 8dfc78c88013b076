// Stands in for CUDA's header of this name.
#pragma once

#include <math.h>
#include <string.h>

#include <cstdint>

struct __half {
  uint16_t bits;
};

inline float __half2float(__half x) {
  const int exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
  const float sign = x.bits >> 15 ? -1.f : 1.f;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? ldexpf(static_cast<float>(1024 + fraction), exponent - 25)
                          : ldexpf(static_cast<float>(fraction), -24));
}

inline __half __float2half_rn(float x) {
  if (x != x) return {0x7fff};
  const uint16_t sign = signbit(x) ? 0x8000 : 0;
  const float size = fabsf(x);
  if (size >= 65520.f) return {static_cast<uint16_t>(sign | 0x7c00)};
  if (size < 6.103515625e-05f) return {static_cast<uint16_t>(sign | lrintf(size * 16777216.f))};  // 2^-14, 2^24
  uint32_t bits;
  memcpy(&bits, &size, sizeof(bits));
  bits += 0xfff + (bits >> 13 & 1) - ((127u - 15u) << 23);
  return {static_cast<uint16_t>(sign | bits >> 13)};
}
