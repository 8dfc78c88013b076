// From tensors to the plain arguments of the degrees and of the normalisation by them, for both devices.
#pragma once

#include "aggregate_args.h"

namespace dgl_ptdnet {

inline int64_t heads_of(const Tensor& x) { return x.dim() == 2 ? x.size(1) : 1; }

inline void check_numbers(const char* name, const Tensor& x) {
  TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble, name,
                   " must be float32 or float64; got ", x.scalar_type(), ". Convert it with .float()");
}

struct SegmentTensors {
  Tensor x, out;

  SegmentSum args(const Tensor& ptr, const Tensor& edge, bool spread) {
    check_numbers("z", x);
    SegmentSum a{};
    a.side = SideTensors{ptr, edge, edge}.view(x.device(), 0);
    a.side.node = nullptr;
    a.heads = heads_of(x);
    const int64_t from = spread ? a.side.rows : a.side.edges, to = spread ? a.side.edges : a.side.rows;
    x = Judge{"z", x}.numbers("z", x, from, spread ? "nodes" : "edges", a.heads);
    out = x.dim() == 2 ? empty({to, a.heads}, x.options()) : empty({to}, x.options());
    a.x = x.const_data_ptr(), a.out = out.mutable_data_ptr();
    return a;
  }
};

struct NormalizeTensors {
  Tensor z, out_deg, in_deg;  // z: the gates, or what else there is a number of for each edge

  Normalize args(const SideTensors& in, const Tensor& out_ptr, double left, double right, double floor) {
    check_numbers("z", z);
    TORCH_CHECK_VALUE(floor >= 0 && std::isfinite(floor) && std::isfinite(left) && std::isfinite(right),
                      "floor must be finite and not negative; got ", floor);
    const Judge judge{"z", z};
    Normalize a{};
    a.in = in.view(z.device(), out_ptr.size(0) - 1);
    a.heads = heads_of(z);
    a.left = left, a.right = right, a.floor = floor;
    z = judge.numbers("z", z, a.in.edges, "edges", a.heads);
    a.z = z.const_data_ptr();
    if (left != 0) {
      out_deg = judge.numbers("out_deg", out_deg, a.in.others, "sources", a.heads);
      a.out_deg = out_deg.const_data_ptr();
    }
    if (right != 0) {
      in_deg = judge.numbers("in_deg", in_deg, a.in.rows, "destinations", a.heads);
      a.in_deg = in_deg.const_data_ptr();
    }
    return a;
  }
};

}  // namespace dgl_ptdnet
