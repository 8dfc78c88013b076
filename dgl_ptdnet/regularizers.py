"""What a training loop asks of all gates of a model: their values, their penalty, their temperature."""

from __future__ import annotations

import math

from torch import Tensor, nn

from .gate import EdgeGate, Gate, Gated


def gates(model: nn.Module) -> dict[str, Tensor]:
    """The gates that each layer of a model used in its last call, with their gradients.

    Parameters
    ----------
    model : torch.nn.Module
        A model with gates in it.

    Returns
    -------
    dict[str, torch.Tensor]
        By the name of the gate: what the layer multiplied its messages with, :math:`(E,)`, so 1 at self-loops that are
        not gated. Gates that were not called yet are left out. Also gates that stand outside of a
        :class:`dgl_ptdnet.Denoised` layer, with what they returned.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> conv = ptd.Denoised(dgl.nn.GraphConv(8, 4), ptd.EdgeGate(8))
    >>> y = conv(g, torch.randn(3, 8))
    >>> {name: z.shape for name, z in ptd.gates(conv).items()}
    {'gate': torch.Size([3])}
    """
    found: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, Gated) and module.gates is not None:
            found[f"{name}.gate" if name else "gate"] = module.gates
        elif isinstance(module, Gate) and module.gates is not None:
            found.setdefault(name, module.gates)
    return found


def penalty(model: nn.Module, edges: float = 0.0, rank: float = 0.0, *, per_edge: bool = False) -> Tensor:
    r"""PTDNet's two regularisers, of the last call of a model.

    .. math::
        \lambda_{edges} \sum_l E[\text{open gates of layer } l] + \lambda_{rank} \sum_l \| A \odot Z^l \|_{K}

    The first is the expected number of open gates; the second is the sum of the K largest singular values of the gated
    adjacency (:class:`LowRank`; each gate has its own K, :class:`EdgeGate`'s ``rank_k``).

    Parameters
    ----------
    model : torch.nn.Module
        A model with :class:`EdgeGate` in it, called before in this step.
    edges : float
        Weight of the expected number of open gates. Default: 0.0.
    rank : float
        Weight of the low-rank term. Default: 0.0.
    per_edge : bool
        Divide each layer's number of open gates by its number of edges, so that ``edges`` weighs a share that does not
        grow with the graph. Default: False.

    Returns
    -------
    torch.Tensor
        A scalar to add to the loss.

    Notes
    -----
    Where a step calls the model several times, the penalty is that of the last call.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> conv = ptd.Denoised(dgl.nn.GraphConv(8, 4), ptd.EdgeGate(8))
    >>> y = conv(g, torch.randn(3, 8))
    >>> loss = y.square().mean() + ptd.penalty(conv, edges=1e-3, rank=1e-3)
    >>> loss.backward()
    """
    gates = [gate for gate in model.modules() if isinstance(gate, EdgeGate)]
    if not gates:
        raise ValueError("model has no EdgeGate, so it has no penalty: other gates have none. Put gates on it: denoise")
    calls = [(gate, gate.last) for gate in gates if gate.last is not None]
    if not calls:
        raise ValueError("model was not called yet, so its gates have no penalty: call the model first")
    total = gates[0].c.new_zeros(())
    for gate, call in calls:
        if edges:
            total = total + (edges / max(1, len(call.z)) if per_edge else edges) * call.penalty  # type: ignore[operator]
        if rank:
            total = total + rank * gate.low_rank(call.edges.index, call.z, remember=not call.edges.sampled)
    return total


def temperature(epoch: int, *, start: float = 2.0, decay: float = 0.99, minimum: float = 0.05) -> float:
    """The authors' schedule of the temperature: ``max(minimum, start * decay ** epoch)``.

    Parameters
    ----------
    epoch : int
        The epoch, from 0.
    start : float
        The temperature of epoch 0. Default: 2.0.
    decay : float
        The factor applied after every epoch. Default: 0.99.
    minimum : float
        The temperature never falls below this. Default: 0.05.

    Examples
    --------
    >>> from dgl_ptdnet import temperature
    >>> temperature(0), round(temperature(100), 3), temperature(1000)
    (2.0, 0.732, 0.05)
    """
    return max(minimum, start * math.pow(decay, epoch))


def set_temperature(model: nn.Module, tau: float) -> None:
    """Sets the temperature of every gate in a model.

    Parameters
    ----------
    model : torch.nn.Module
        A model with gates in it.
    tau : float
        The temperature, positive.

    Examples
    --------
    >>> import dgl_ptdnet as ptd
    >>> gate = ptd.EdgeGate(8)
    >>> ptd.set_temperature(gate, ptd.temperature(epoch=10))
    >>> round(gate.tau, 2)
    1.81
    """
    if not tau > 0:
        raise ValueError(f"tau must be positive; got {tau}")
    for gate in model.modules():
        if isinstance(gate, Gate) and gate.tau is not None:
            gate.tau = tau
