"""Learned edge dropping for DGL: PTDNet, with the edge gate in one fused kernel.

Names are imported at first use. So the operators work without DGL, and the command line answers ``--help`` without
loading torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agreement import Agreement as Agreement
    from .baselines import DropEdge as DropEdge
    from .baselines import NeuralSparse as NeuralSparse
    from .conv import Denoised as Denoised
    from .conv import denoise as denoise
    from .denoiser import Denoiser as Denoiser
    from .gate import EdgeGate as EdgeGate
    from .low_rank import LowRank as LowRank
    from .ops import *  # noqa: F403
    from .prior import Prior as Prior
    from .prior import density_prior as density_prior
    from .pruning import prune as prune
    from .regularizers import (
        gates as gates,
    )
    from .regularizers import (
        penalty as penalty,
    )
    from .regularizers import (
        set_temperature as set_temperature,
    )
    from .regularizers import (
        temperature as temperature,
    )

__version__ = "0.1.0"

_HOMES = {  # module: the public names that it holds
    "agreement": "Agreement",
    "baselines": "DropEdge NeuralSparse",
    "conv": "Denoised denoise",
    "denoiser": "Denoiser",
    "gate": "EdgeGate",
    "low_rank": "LowRank",
    "ops": "EdgeIndex aggregate attention attention_v2 build_info degrees edge_dot edge_gate maximum normalize "
    "release_memory",
    "prior": "Prior density_prior",
    "pruning": "prune",
    "regularizers": "gates penalty set_temperature temperature",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = ("data", "reference", "train")

__all__ = sorted([*_MODULES, *_HOME_OF])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
