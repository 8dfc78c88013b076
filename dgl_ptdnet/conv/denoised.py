"""The module that puts a gate on a convolution."""

from __future__ import annotations

import inspect
from typing import Any, Callable

from torch import nn

from ..gate import Gated
from .call import Call
from .layers import LAYERS
from .weighted import weighted_conv


class Denoised(Gated):
    r"""A DGL convolution with a gate on every edge. It is called like the convolution.

    ``GraphConv``, ``SAGEConv``, ``GATConv``, ``GATv2Conv`` and ``GINConv`` run on gated kernels, which are faster than
    DGL's with edge weights. Any other convolution that takes ``edge_weight`` gets the gates as edge weights.

    Parameters
    ----------
    conv : torch.nn.Module
        The convolution. It keeps its parameters.
    gate : torch.nn.Module
        Any module that is called as ``gate(g, h)`` with the convolution's own input and returns :math:`(E,)` numbers
        in [0, 1]: :class:`EdgeGate`, :class:`DropEdge`, :class:`NeuralSparse`, or yours.
    after_softmax : bool
        For attention: multiply the attention weights by the gates after the softmax. Default: False, the gates are
        inside the softmax, :math:`z_e \exp(a_e) / \sum z \exp(a)`, so that the other edges get a dropped edge's share.
    floor : float
        The minimum that a gated degree counts as in normalisations and means, see :func:`normalize`. Default: 0.0, they
        are exact; with 1 the messages fade out as the last gate of a node closes.

    Attributes
    ----------
    gates : torch.Tensor
        The gates that the last call multiplied with, :math:`(E,)`, with their gradient; None before the first call.

    Notes
    -----
    Degrees are sums of gates: the layer normalises by the degrees of the gated graph, and averages over open edges. A
    node without open edges gets zeros from its neighbours, and keeps its own features where the layer has a path for
    them. With gates that are all 1 the result is that of the convolution.

    Self-loops have gate 1, unless the gate has a true attribute ``self_loops``. No self-loops are added. Attributes of
    the convolution can be read through the wrapper.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> conv = ptd.Denoised(dgl.nn.GraphConv(8, 4), ptd.EdgeGate(8))
    >>> conv(g, torch.randn(3, 8)).shape
    torch.Size([3, 4])
    >>> conv.gates.shape
    torch.Size([3])
    """

    def __init__(self, conv: nn.Module, gate: nn.Module, *, after_softmax: bool = False, floor: float = 0.0) -> None:
        super().__init__()
        reason = why_not(conv)
        if reason:
            raise TypeError(f"{type(conv).__name__} cannot be denoised: {reason}")
        if not floor >= 0:
            raise ValueError(f"floor must not be negative; got {floor}")
        self.conv, self.gate = conv, gate
        self.after_softmax, self.floor = after_softmax, floor

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "conv":
                raise
            return getattr(self.conv, name)

    def extra_repr(self) -> str:
        return f"after_softmax={self.after_softmax}, floor={self.floor}"

    def forward(self, graph: Any, feat: Any, *args: Any, **kwargs: Any) -> Any:
        """What the convolution's ``forward`` computes, with the messages weighed by the gates.

        Parameters
        ----------
        graph : DGLGraph
            A graph with one edge type, or a block.
        feat : torch.Tensor or tuple[torch.Tensor, torch.Tensor]
            Node features :math:`(N, F)`, or a pair: those of the sources and of the destinations.
        *args, **kwargs
            The convolution's other arguments, such as ``edge_weight`` or ``get_attention``.

        Returns
        -------
        torch.Tensor
            What the convolution returns, :math:`(N_{dst}, F_{out})` for most.
        """
        return layer_of(self.conv)(self, Call(graph, feat, self), feat, *args, **kwargs)


def layer_of(conv: nn.Module) -> Callable[..., Any]:
    """The function that computes a convolution with gates."""
    return LAYERS.get(type(conv).forward, weighted_conv)  # a subclass with a forward of its own is another layer


def why_not(conv: nn.Module) -> str:
    """Why a module cannot be denoised; empty where it can."""
    if isinstance(conv, Denoised):
        return "it is denoised already"
    takes = inspect.signature(conv.forward).parameters
    if layer_of(conv) is not weighted_conv or "edge_weight" in takes:
        return ""
    return "its forward takes no edge_weight, so there is no place for the gates"
