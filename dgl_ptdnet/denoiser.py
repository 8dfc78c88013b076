"""What is known of the edges of one graph: the density prior, and agreement where labels are given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .agreement import Agreement
from .graph import ID, edges_of
from .ops import EdgeIndex
from .prior import Prior, density_prior


class Denoiser(nn.Module):
    r"""Finds the edges of a graph that are likely wrong, and gives gates a bias for every edge.

    Without labels it is the density prior (:func:`dgl_ptdnet.density_prior`), computed when it is made. With labels it
    also holds an encoder that learns beside the model which nodes agree (:class:`dgl_ptdnet.Agreement`), and the bias
    changes from epoch to epoch.

    Parameters
    ----------
    g : DGLGraph or EdgeIndex
        A graph with one type of nodes and edges.
    x : torch.Tensor
        Features of the nodes, :math:`(N, F)`.
    labels : torch.Tensor, optional
        The class of each node, int64 :math:`(N,)`. Only those of training nodes are used. Default: ``None``.
    train_mask : torch.Tensor, optional
        Which nodes are training nodes, bool :math:`(N,)`. Give it together with ``labels``. Default: ``None``.
    seed : int
        Seed of the density prior. Default: 0.
    num_classes : int, optional
        Number of classes. Default: ``None``, the largest label of a training node and one.
    **options
        Those of :class:`dgl_ptdnet.Agreement`: ``homophily``, ``warmup``, ``ramp``, ``momentum``, ``hidden``,
        ``dropout``.

    Attributes
    ----------
    real : torch.Tensor
        The probability that each edge is real, :math:`(E,)` float32, in the order of the graph's edges.
    noise_share : float
        The estimated share of wrong edges, self-loops not counted.
    interval : tuple[float, float]
        Two standard errors to both sides; see :class:`dgl_ptdnet.Prior`.
    epoch : int
        Number of calls of :meth:`step`.

    Notes
    -----
    With labels, an epoch of training is::

        loss = task_loss(model(g, x)) + denoiser.loss()         # optimizer: parameters of the model and the denoiser
        ...                                                     # backward, a step of the optimizer
        denoiser.step(probabilities)                            # of the model in evaluation mode, all nodes

    The task's loss does not depend on the denoiser's parameters nor its loss on the model's. Adam with rate 0.01 and
    weight decay 1e-4 was tried for the denoiser's parameters.

    The state_dict holds all that changes; ``real`` is computed from the graph again.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.rand_graph(100, 600)
    >>> x, labels = torch.randn(100, 8), torch.arange(100) % 2
    >>> denoiser = ptd.Denoiser(g, x)                                   # without labels
    >>> denoiser.real.shape
    torch.Size([600])
    >>> low, high = denoiser.interval
    >>> low <= denoiser.noise_share <= high
    True
    >>> denoiser = ptd.Denoiser(g, x, labels, torch.arange(100) < 20)   # with labels
    >>> optimizer = torch.optim.Adam(denoiser.parameters(), lr=0.01, weight_decay=1e-4)
    >>> for epoch in range(3):
    ...     loss = denoiser.loss()                                  # + the task's
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    ...     denoiser.step(torch.rand(100, 2).softmax(1))
    >>> denoiser(g).shape                                           # the bias for gates
    torch.Size([600])
    """

    real: Tensor
    bias: Tensor
    steps: Tensor

    def __init__(
        self,
        g: Any,
        x: Tensor,
        labels: Tensor | None = None,
        train_mask: Tensor | None = None,
        *,
        seed: int = 0,
        num_classes: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if (labels is None) != (train_mask is None):
            missing = "labels" if labels is None else "train_mask"
            raise ValueError(f"{missing} is missing: give labels and train_mask, or neither for the prior alone")
        if labels is None and options:
            raise TypeError(f"{', '.join(options)}: these are options of agreement, which needs labels and train_mask")
        agreement = None
        if labels is not None and train_mask is not None:
            agreement = _agreement(x, labels, train_mask, num_classes, options)
        self.prior = density_prior(g, x, seed=seed)
        self._take(g, agreement)

    @classmethod
    def of_prior(cls, g: Any, prior: Prior, agreement: Agreement | None = None) -> Denoiser:
        """A denoiser of a prior that is there already, and of an agreement or none."""
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.prior = prior
        made._take(g, agreement)
        return made

    def _take(self, g: Any, agreement: Agreement | None) -> None:
        self._index = index = _index(g)
        self.agreement = agreement
        self.register_buffer("real", self.prior.real.to(index.src.device), persistent=False)
        self.register_buffer("bias", self.prior.logit.to(index.src.device), persistent=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_load_state_dict_post_hook(_refresh)

    @property
    def noise_share(self) -> float:
        return self.prior.noise_share

    @property
    def interval(self) -> tuple[float, float]:
        return self.prior.interval

    @property
    def epoch(self) -> int:
        return int(self.steps)

    def forward(self, g: Any) -> Tensor:
        """The bias of every edge, :math:`(E,)`: its log-odds, for gates to start from.

        Parameters
        ----------
        g : DGLGraph or EdgeIndex
            The graph of the denoiser, or a graph or block that was sampled from it, with ``dgl.EID``.
        """
        index = _index(g)
        if index is self._index:
            return self.bias
        same_size = (index.num_src, index.num_edges) == (self._index.num_src, self._index.num_edges)
        if same_size and _same_edges(index, self._index):
            self._index = index  # the next look at it costs nothing
            return self.bias
        if isinstance(g, EdgeIndex) or ID not in g.edata:
            raise ValueError(
                f"g is another graph: it has {index.num_src} nodes and {index.num_edges} edges, the denoiser was made "
                f"for one of {self._index.num_src} nodes and {self._index.num_edges} edges"
                f"{', which are others' if same_size else ''}. Make a denoiser for each graph; a sampled part needs "
                "dgl.EID"
            )
        edges = g.edata[ID].long()
        if len(edges) and int(edges.max()) >= len(self.bias):
            raise ValueError(
                f"g was sampled from another graph: g.edata[dgl.EID] goes up to {int(edges.max())}, but the denoiser's "
                f"graph has {len(self.bias)} edges. Make a denoiser for the graph that g was sampled from"
            )
        return self.bias[edges.to(self.bias.device)]

    def loss(self) -> Tensor:
        """The loss of this epoch, a scalar: what agreement learns by. 0 without labels."""
        return self.bias.new_zeros(()) if self.agreement is None else self.agreement.loss(self.epoch)

    @torch.no_grad()
    def step(self, probabilities: Tensor | None = None) -> None:
        """Ends an epoch: takes what the model says of all nodes, and moves the bias on.

        Parameters
        ----------
        probabilities : torch.Tensor, optional
            Of the model in evaluation mode, :math:`(N, C)`. Needed with labels. Default: ``None``.
        """
        if self.agreement is not None:
            if probabilities is None:
                raise ValueError(
                    "probabilities is missing: the denoiser has labels and learns from the model's answers"
                )
            self.agreement.observe(probabilities)
        self.steps += 1
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Computes the bias of this epoch again. :meth:`step` and ``load_state_dict`` do it by themselves."""
        if self.agreement is not None:
            self.bias = self.agreement.edge_bias(self._index, self.prior, self.epoch).to(self.bias.device)


def _refresh(denoiser: Any, _: Any) -> None:  # not a lambda: a denoiser can be pickled
    denoiser.refresh()


def _same_edges(one: EdgeIndex, other: EdgeIndex) -> bool:
    ends = ((one.src, other.src), (one.dst, other.dst))
    return all(torch.equal(a.to(b.device).long(), b.long()) for a, b in ends)


def _index(g: Any) -> EdgeIndex:
    return g if isinstance(g, EdgeIndex) else edges_of(g).index


def _agreement(
    x: Tensor, labels: Tensor, train_mask: Tensor, num_classes: int | None, options: dict[str, Any]
) -> Agreement:
    if num_classes is None:
        known = labels[train_mask] if train_mask.dtype == torch.bool and train_mask.shape == labels.shape else labels
        num_classes = int(known.max()) + 1 if known.numel() and labels.dtype == torch.int64 else 1
    return Agreement(x, labels, train_mask, num_classes, **options)
