"""Gates for every DGL convolution of a model."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Callable

import torch
from torch import nn

from .._dgl import dgl
from ..denoiser import Denoiser
from ..gate import EdgeGate, PriorGate
from .denoised import Denoised, why_not

log = logging.getLogger("dgl_ptdnet")


def _in_feats(conv: nn.Module) -> int | tuple[int, int] | None:
    """Size of a convolution's input, where it is known."""
    for names in (("_in_src_feats", "_in_dst_feats"), ("_in_src_node_feats", "_in_dst_node_feats")):
        if hasattr(conv, names[0]):
            src, dst = (getattr(conv, name) for name in names)
            return src if src == dst else (src, dst)
    if isinstance(getattr(conv, "_in_feats", None), int):
        return conv._in_feats  # type: ignore[return-value]
    first = next((m for m in conv.modules() if isinstance(m, nn.Linear)), None)  # GIN's own MLP, SGConv's layer
    return None if first is None else first.in_features


def denoise(
    model: nn.Module, make_gate: Callable[[Any], nn.Module] | Denoiser = EdgeGate, *, skip: Iterable[str] = ()
) -> nn.Module:
    """Puts a gate of its own on every DGL convolution of a model, in place. The model keeps its parameters.

    Parameters
    ----------
    model : torch.nn.Module
        Any module, or a convolution itself.
    make_gate : callable or Denoiser
        Makes a gate from the size of a convolution's input features. With a :class:`Denoiser` the gates start from what
        it knows of the graph's edges, and are equal in both directions. The denoiser becomes a part of the first layer,
        so the model's parameters and state include those of the denoiser. Default: :class:`EdgeGate`.
    skip : iterable of str
        Names of convolutions to leave as they are, as in ``model.named_modules()``. Default: none.

    Returns
    -------
    torch.nn.Module
        The model; for a single convolution the :class:`Denoised` layer around it. The logger ``dgl_ptdnet`` names what
        was wrapped, at level INFO.

    Raises
    ------
    ValueError
        The model has no convolution, or has one that cannot be denoised and is not in ``skip``. The message names it
        and says why. The model is left as it was.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> model = torch.nn.ModuleList([dgl.nn.GraphConv(8, 16), dgl.nn.SAGEConv(16, 4, "mean")])
    >>> model = ptd.denoise(model)
    >>> [type(layer).__name__ for layer in model]
    ['Denoised', 'Denoised']
    >>> model = ptd.denoise(dgl.nn.GATConv(8, 4, 2), lambda size: ptd.EdgeGate(size, hidden=16, symmetric=True))
    """
    if isinstance(make_gate, Denoiser):
        denoiser = make_gate
        model = denoise(model, lambda size: PriorGate(size, denoiser, symmetric=True), skip=skip)
        layers = [module for module in model.modules() if isinstance(module, Denoised)]
        for layer in layers:
            if isinstance(layer.conv, dgl.nn.SAGEConv):
                layer.floor = 1.0  # a mean over edges that all look wrong fades out
        layers[0].denoiser = denoiser
        return model
    skip = set(skip)
    found, refused = [], []
    for name, module in _convolutions(model, ""):
        if name in skip:
            skip.discard(name)
            continue
        reason = why_not(module)
        if not reason and _in_feats(module) is None:
            reason = "the size of its input is not known: wrap it yourself with Denoised(conv, EdgeGate(size))"
        if reason:
            refused.append(f"{name or 'the model'} ({type(module).__name__}): {reason}")
        else:
            found.append((name, module))
    if skip:
        raise ValueError(f"skip names no convolution of the model: {', '.join(sorted(skip))}")
    if refused:
        raise ValueError("cannot denoise " + "; ".join(refused) + ". Name it in skip to leave it as it is")
    if not found:
        raise ValueError("the model has no DGL convolution that is neither denoised already nor in skip")
    wrapped: dict[int, Denoised] = {}  # a module that is used twice keeps one gate
    for _, module in found:  # all gates before the first is put in: one that cannot be made leaves the model as it was
        if id(module) not in wrapped:
            device = next((p.device for p in module.parameters()), torch.device("cpu"))
            wrapped[id(module)] = Denoised(module, make_gate(_in_feats(module)).to(device)).train(module.training)
    for name, module in found:
        log.info("denoised %s (%s)", name or "the model", type(module).__name__)
        if not name:
            return wrapped[id(module)]
        parent, _, child = name.rpartition(".")
        model.get_submodule(parent)._modules[child] = wrapped[id(module)]
    for module in model.modules():
        if isinstance(module, dgl.nn.HeteroGraphConv):  # it calls its layers from a dictionary of its own
            module.mod_dict = {etype: wrapped.get(id(conv), conv) for etype, conv in module.mod_dict.items()}
    return model


def _convolutions(module: nn.Module, name: str) -> Iterable[tuple[str, nn.Module]]:
    """The outermost modules of DGL's classes and of their subclasses, under every name that they have."""
    if isinstance(module, Denoised):
        return
    if any(base.__module__.startswith("dgl.nn.pytorch.conv") for base in type(module).__mro__):
        yield name, module
        return
    for child_name, child in module._modules.items():
        if child is not None:
            yield from _convolutions(child, f"{name}.{child_name}" if name else child_name)
