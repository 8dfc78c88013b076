"""Learned edge dropping for DGL: PTDNet, with the edge gate in one fused kernel.

Names are imported at first use. So the operators work without DGL, and the command line answers ``--help`` without
loading torch.
"""

from typing import TYPE_CHECKING

from ._lazy import lazy

if TYPE_CHECKING:
    from .agreement import Agreement as Agreement
    from .baselines import DropEdge as DropEdge, NeuralSparse as NeuralSparse
    from .conv import Denoised as Denoised, denoise as denoise
    from .denoiser import Denoiser as Denoiser
    from .gate import EdgeGate as EdgeGate
    from .low_rank import LowRank as LowRank
    from .ops import *  # noqa: F403  # mypy takes the names for modules when they are listed
    from .prior import Prior as Prior, density_prior as density_prior
    from .pruning import prune as prune
    from .regularizers import (
        gates as gates,
        penalty as penalty,
        set_temperature as set_temperature,
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
_HOME_OF.update(data="", reference="", train="")

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = lazy(__name__, _HOME_OF)
