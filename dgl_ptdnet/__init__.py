"""Learned edge dropping for DGL: PTDNet, with the edge gate in one fused kernel."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import reference
from .agreement import Agreement
from .baselines import DropEdge, NeuralSparse
from .gate import EdgeGate, gates, penalty, set_temperature, temperature
from .ops import (
    EdgeIndex,
    aggregate,
    attention,
    attention_v2,
    build_info,
    degrees,
    edge_dot,
    edge_gate,
    maximum,
    normalize,
    release_memory,
)
from .prior import Prior, density_prior
from .rank import LowRank

if TYPE_CHECKING:
    from .conv import Denoised, denoise
    from .pruning import prune

__all__ = [
    "Agreement",
    "Denoised",
    "DropEdge",
    "EdgeGate",
    "EdgeIndex",
    "LowRank",
    "NeuralSparse",
    "Prior",
    "aggregate",
    "attention",
    "attention_v2",
    "build_info",
    "degrees",
    "denoise",
    "density_prior",
    "edge_dot",
    "edge_gate",
    "gates",
    "maximum",
    "normalize",
    "penalty",
    "prune",
    "reference",
    "release_memory",
    "set_temperature",
    "temperature",
]
__version__ = "0.1.0"

_NEED_DGL = {"Denoised": "conv", "denoise": "conv", "prune": "pruning"}


def __getattr__(name: str) -> Any:  # at first use: the rest works without DGL
    if name not in _NEED_DGL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_NEED_DGL[name]}", __name__), name)
    globals()[name] = value
    return value
