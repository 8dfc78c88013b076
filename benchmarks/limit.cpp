// The memory limit of the edge gate: a pass that gathers every row it needs, does as little as possible with it and
// writes one number for each edge, in the caller's order. It is compiled for the machine that it runs on, and the
// compiler knows H. The benchmark chooses the best prefetch distance.
#include <cstdint>

namespace {

struct Pass {
  const int32_t *order, *other, *own;  // order of positions, or null; far and near row of each position
  const float *far_rows, *near_rows, *w;
  int64_t h, edges, ahead;
  const int32_t* edge;  // the caller's number of each position
  float* out;
};

template <int H>
void run(const Pass& p, int64_t begin, int64_t end) {
  const int64_t h = H ? H : p.h, lines = (h * 4 + 63) / 64;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t later = i + p.ahead < p.edges ? i + p.ahead : i;
    const char* row = reinterpret_cast<const char*>(p.far_rows + p.other[p.order ? p.order[later] : later] * h);
    for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(row + 64 * line, 0, 3);
    const int64_t position = p.order ? p.order[i] : i;
    const float *a = p.far_rows + p.other[position] * h, *b = p.near_rows + p.own[position] * h;
    float sum = 0;
    for (int64_t k = 0; k < h; ++k) {
      const float x = a[k] + b[k];
      sum += p.w[k] * (x > 0 ? x : 0);
    }
    p.out[p.edge[position]] = sum;
  }
}

}  // namespace

extern "C" void limit_pass(const int32_t* order, const int32_t* other, const int32_t* own, const float* far_rows,
                           const float* near_rows, const float* w, int64_t h, int64_t edges, int64_t ahead,
                           int64_t threads, const int32_t* edge, float* out) {
  const Pass pass{order, other, own, far_rows, near_rows, w, h, edges, ahead, edge, out};
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t t = 0; t < threads; ++t) {
    auto* f = h == 64 ? run<64> : h == 16 ? run<16> : h == 128 ? run<128> : h == 1 ? run<1> : run<0>;
    f(pass, edges * t / threads, edges * (t + 1) / threads);
  }
}
