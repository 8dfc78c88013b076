"""Builds dgl_ptdnet's two libraries: `_C` (operators, CPU kernels) and, where torch has CUDA, `_cuda`.

FORCE_CUDA=1    build _cuda and fail where that cannot be done
FORCE_CPU=1     do not build _cuda
TORCH_CUDA_ARCH_LIST, MAX_JOBS: as everywhere in torch
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import setup


def toolkit():
    """The folder of the nvcc on PATH by its own word: the nvcc there may be a script that calls another."""
    if shutil.which("nvcc") is None:
        return None
    words = subprocess.run(["nvcc", "--dryrun", "none.cu"], capture_output=True, text=True, check=False).stderr
    here = re.search(r"_HERE_=(.+)", words)
    return here and str(Path(here.group(1)).parent)


if not (os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")) and toolkit():
    os.environ["CUDA_HOME"] = toolkit()  # torch reads it when it is imported

try:
    import torch
    from torch.utils import cpp_extension
except ImportError as error:
    raise SystemExit(
        "dgl_ptdnet is built against the torch it will run with. Install torch first, for example "
        "`pip install torch==2.13.0`, then `pip install --no-build-isolation .`"
    ) from error

FLAGS = ["-O3", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"]
FLAGS += ["-Wall", "-Wextra", "-Wno-maybe-uninitialized", "-Wno-unused-parameter"]


def flag(name):
    return os.environ.get(name, "0").upper() in ("1", "ON", "TRUE", "YES")


def sources(pattern):
    root = Path(__file__).parent
    return sorted(str(path.relative_to(root)) for path in root.glob(pattern))


def wants_cuda():
    if flag("FORCE_CPU"):
        return False
    if torch.version.cuda is None:
        if flag("FORCE_CUDA"):
            raise SystemExit("FORCE_CUDA=1, but the installed torch is a CPU build: install a CUDA build of torch.")
        return False
    if cpp_extension.CUDA_HOME is None:
        message = "torch has CUDA, but nvcc was not found: put it on PATH or set CUDA_HOME"
        if flag("FORCE_CUDA"):
            raise SystemExit(message + ".")
        print(message + ". Building for the CPU only; FORCE_CPU=1 says so without this message.")
        return False
    return True


def extensions():
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler.split()[0]) is None:
        raise SystemExit(f"No C++ compiler: {compiler!r} was not found. Install g++ 9 or newer, or set CXX.")
    cuda = wants_cuda()
    archs = os.environ.get("TORCH_CUDA_ARCH_LIST") or " ".join(torch.cuda.get_arch_list()) or "torch's choice"
    facts = [("PTD_CUDA_VERSION", f'"{torch.version.cuda}"'), ("PTD_CUDA_ARCHS", f'"{archs}"')] if cuda else []
    found = [
        cpp_extension.CppExtension(
            "dgl_ptdnet._C",
            sources("csrc/*.cpp") + sources("csrc/cpu/*.cpp"),
            define_macros=facts,
            extra_compile_args={"cxx": FLAGS},
            extra_link_args=["-fopenmp"],
        )
    ]
    if cuda:
        found.append(
            cpp_extension.CUDAExtension(
                "dgl_ptdnet._cuda",
                sources("csrc/cuda/*.cpp") + sources("csrc/cuda/*.cu"),
                extra_compile_args={"cxx": FLAGS, "nvcc": ["-O3", "-lineinfo"]},
            )
        )
    return found


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True)},
)
