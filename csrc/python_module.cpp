// The Python module: build_info and release_memory. The operators register themselves when the module is loaded.
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <torch/version.h>

#include "core/memory.h"
#include "cpu/levels.h"

namespace py = pybind11;

PYBIND11_MODULE(_C, m) {
  m.doc() = "dgl_ptdnet's operators for the CPU, and how they were built";
  m.def("build_info", [] {
    py::dict info;
    info["torch"] = TORCH_VERSION;
    info["compiler"] = "g++ " __VERSION__;
    info["cpu_level"] = dgl_ptdnet::level_name(dgl_ptdnet::cpu_level());
#ifdef _OPENMP
    info["openmp"] = true;
#else
    info["openmp"] = false;
#endif
#ifdef PTD_CUDA_VERSION
    info["cuda"] = PTD_CUDA_VERSION;
    info["cuda_archs"] = PTD_CUDA_ARCHS;
#else
    info["cuda"] = py::none();
    info["cuda_archs"] = py::none();
#endif
    return info;
  });
  m.def("release_memory", &dgl_ptdnet::release_memory);
}
