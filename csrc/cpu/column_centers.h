// Numbers near the means of columns. Sums of products with rows keep more digits if these are subtracted from the rows.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/types.h"

namespace dgl_ptdnet {

template <class Row>
std::vector<double> column_centers(const Row* x, int64_t stride, int64_t rows, int64_t columns) {
  const int64_t step = std::max<int64_t>(1, rows / 64);  // about 64 rows are enough
  std::vector<double> sum(columns), count(columns);
  for (int64_t row = 0; row < rows; row += step)
    for (int64_t k = 0; k < columns; ++k) {
      const double value = static_cast<double>(x[row * stride + k]);
      if (std::isfinite(value)) sum[k] += value, count[k] += 1;
    }
  for (int64_t k = 0; k < columns; ++k) sum[k] /= std::max(1.0, count[k]);
  return sum;
}

inline std::vector<double> column_centers(const void* x, Dtype dtype, int64_t stride, int64_t rows, int64_t columns) {
  switch (dtype) {
    case Dtype::f64:
      return column_centers(static_cast<const double*>(x), stride, rows, columns);
    case Dtype::bf16:
      return column_centers(static_cast<const c10::BFloat16*>(x), stride, rows, columns);
    case Dtype::f16:
      return column_centers(static_cast<const c10::Half*>(x), stride, rows, columns);
    default:
      return column_centers(static_cast<const float*>(x), stride, rows, columns);
  }
}

}  // namespace dgl_ptdnet
