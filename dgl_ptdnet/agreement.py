"""Whether the two ends of an edge are likely of one class: a bias for gates that learns beside the model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .graph import edges_of
from .ops import EdgeIndex, edge_dot
from .prior import CAP, Prior
from .sparse import dropout, sparse_if_faster


class Agreement(nn.Module):
    r"""The log-odds that the ends of an edge have the same class, from an encoder that never sees the edges.

    The encoder is an MLP on the features of a node alone, so noise edges do not reach it. With its probabilities
    :math:`p`, and the probability :math:`\pi_e` that an edge is real (:func:`dgl_ptdnet.density_prior`), the bias is

    .. math::
        B_e = \mathrm{logit} \langle p_u, p_v \rangle
            + \log \frac{\pi_e h / k + 1 - \pi_e}{\pi_e (1 - h) / (1 - k) + 1 - \pi_e}, \qquad e = (u, v)

    with :math:`h` the share of real edges that join nodes of one class and :math:`k` that of random pairs, the sum of
    the squared class shares among training nodes. In the first epochs the bias is :math:`\mathrm{logit}\, \pi_e` and
    the encoder learns the training labels; then it learns every node from the model's own answers, averaged over
    epochs, and the bias moves over to :math:`B_e`.

    Parameters
    ----------
    x : torch.Tensor
        Features of the nodes, :math:`(N, F)`. They stay as they are, in a run and in those that resume it.
    labels : torch.Tensor
        The class of each node, int64 :math:`(N,)`. Only those of training nodes are looked at and kept.
    train_mask : torch.Tensor
        Which nodes are training nodes, bool :math:`(N,)`.
    num_classes : int
        Number of classes.
    hidden : int
        Number of hidden units of the encoder. Default: 64.
    dropout : float
        Dropout rate on the encoder's features and hidden units, in [0, 1). Default: 0.5.
    homophily : float
        :math:`h`, the share of real edges that join nodes of one class, in (0, 1). Default: 0.8.
    warmup : int
        Number of epochs before the encoder learns from the model. Default: 60.
    ramp : int
        Number of epochs in which the bias then changes to :math:`B_e`. Default: 30.
    momentum : float
        Weight of the old average when the probabilities of an epoch are added, in [0, 1). Default: 0.9.

    Notes
    -----
    An epoch of training is::

        bias = agreement.edge_bias(g, prior, epoch)     # into the gates; no gradient
        ...                                             # a step of the model
        agreement.observe(probabilities)                # of the model, in evaluation mode
        loss = agreement.loss(epoch)                    # a step of the encoder

    The task's loss has no gradient for the encoder, and this loss has none for the model, so one optimizer can minimise
    their sum, with a parameter group for the encoder (tried: Adam, rate 0.01, weight decay 1e-4). The state_dict holds
    all that changes; dropout draws from torch's generator. Zeros among the features cost nothing where most are zero.

    It is for tasks with one label a node. For several labels a node use the prior alone: ``prior.logit``.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> x, labels = torch.eye(3), torch.tensor([0, 0, 1])
    >>> agreement = ptd.Agreement(x, labels, torch.tensor([True, False, True]), num_classes=2)
    >>> optimizer = torch.optim.Adam(agreement.parameters(), lr=0.01, weight_decay=1e-4)
    >>> for epoch in range(100):
    ...     agreement.observe(torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]]))
    ...     optimizer.zero_grad()
    ...     agreement.loss(epoch).backward()
    ...     optimizer.step()
    >>> bias = agreement.edge_bias(g, prior=None, epoch=100)
    >>> bias[0] > bias[1]  # nodes 0 and 1 agree, 1 and 2 do not
    tensor(True)
    """

    average: Tensor
    targets: Tensor

    def __init__(
        self,
        x: Tensor,
        labels: Tensor,
        train_mask: Tensor,
        num_classes: int,
        *,
        hidden: int = 64,
        dropout: float = 0.5,
        homophily: float = 0.8,
        warmup: int = 60,
        ramp: int = 30,
        momentum: float = 0.9,
    ) -> None:
        super().__init__()
        _check(x, labels, train_mask, num_classes)
        if not 0 < homophily < 1 or not 0 <= momentum < 1 or not 0 <= dropout < 1:
            raise ValueError(
                "homophily must be in (0, 1), momentum and dropout in [0, 1); got "
                f"{homophily}, {momentum} and {dropout}"
            )
        if warmup < 0 or ramp < 0 or hidden < 1:
            raise ValueError(
                f"warmup and ramp must be at least 0, hidden at least 1; got {warmup}, {ramp} and {hidden}"
            )
        self.x = sparse_if_faster(functional.normalize(x.detach().float(), dim=1))
        self.hidden, self.out = nn.Linear(x.shape[1], hidden), nn.Linear(hidden, num_classes)
        self.dropout, self.homophily, self.warmup, self.ramp, self.momentum = dropout, homophily, warmup, ramp, momentum
        self.register_buffer("average", torch.zeros(len(x), num_classes))
        # Passed again at each start, like the features, so not saved. -1 marks nodes that are not for training.
        self.register_buffer("targets", torch.where(train_mask, labels, -1), persistent=False)
        shares = labels[train_mask].bincount(minlength=num_classes).double() / int(train_mask.sum())
        self.chance = min(float(shares.square().sum()), CAP)  # k; 1 if there is one class alone

    def logits(self, drop: bool = False) -> Tensor:
        """The encoder's logits of every node, :math:`(N, C)`, with dropout if ``drop``."""
        self.x = self.x.to(self.out.weight)  # where the module was moved to
        h = torch.relu(self.hidden(dropout(self.x, self.dropout, drop)))
        return self.out(dropout(h, self.dropout, drop))

    @torch.no_grad()
    def edge_bias(self, g: Any, prior: Prior | None, epoch: int) -> Tensor:
        """The bias of every edge in an epoch.

        Parameters
        ----------
        g : DGLGraph or EdgeIndex
            The graph.
        prior : Prior or None
            From :func:`dgl_ptdnet.density_prior`. None: every edge counts as real.
        epoch : int
            The epoch, from 0.

        Returns
        -------
        torch.Tensor
            :math:`(E,)` float32, finite, without gradient.
        """
        index = g if isinstance(g, EdgeIndex) else edges_of(g).index
        real = torch.full((index.num_edges,), CAP, device=index.src.device) if prior is None else prior.real
        if len(real) != index.num_edges or index.num_src != len(self.targets):
            raise ValueError(
                f"prior is of {len(real)} edges and x of {len(self.targets)} nodes, g has {index.num_edges} and "
                f"{index.num_src}: make them for this graph"
            )
        moved = min(1.0, max(0.0, (epoch - self.warmup) / max(1, self.ramp)))
        bias = torch.logit(real)
        if moved == 0:
            return bias
        probabilities = self.logits().float().softmax(1)
        agree = edge_dot(index, probabilities, probabilities).clamp(1 - CAP, CAP)
        same = real * (self.homophily / self.chance) + 1 - real
        other = real * ((1 - self.homophily) / (1 - self.chance)) + 1 - real
        return bias.lerp(torch.logit(agree) + torch.log(same / other), moved)

    @torch.no_grad()
    def observe(self, probabilities: Tensor) -> None:
        """Takes the model's probabilities of an epoch, :math:`(N, C)`, into their average."""
        if probabilities.shape != self.average.shape:
            raise ValueError(
                f"probabilities must be [N, C] = {tuple(self.average.shape)}, those of all nodes; got shape "
                f"{tuple(probabilities.shape)}"
            )
        self.average.lerp_(probabilities.to(self.average.dtype), 1 - self.momentum)

    def loss(self, epoch: int) -> Tensor:
        """The encoder's loss in an epoch.

        Before ``warmup`` it is the cross-entropy of the training nodes, then that of all nodes. A node without a
        training label gets the model's likeliest class, weighted by the square of its probability.

        Parameters
        ----------
        epoch : int
            The epoch, from 0.

        Returns
        -------
        torch.Tensor
            A scalar with gradient for the encoder's parameters.
        """
        logits, known = self.logits(drop=True).float(), self.targets >= 0
        if epoch < self.warmup:
            return functional.cross_entropy(logits[known], self.targets[known])
        # The average starts from 0, so its rows do not sum to 1 yet.
        average = self.average / self.average.sum(1, keepdim=True).clamp(min=1e-12)
        confidence, found = average.max(1)
        weight = torch.where(known, 1.0, confidence.square())
        losses = functional.cross_entropy(logits, torch.where(known, self.targets, found), reduction="none")
        return (weight * losses).sum() / weight.sum()


def _check(x: Tensor, labels: Tensor, train_mask: Tensor, num_classes: int) -> None:
    if x.dim() != 2 or x.shape[1] < 1 or len(x) != len(labels):
        raise ValueError(f"x must be [N, F] with N = {len(labels)} labels and F >= 1; got shape {tuple(x.shape)}")
    if labels.dim() != 1 or labels.dtype != torch.int64:
        raise ValueError(
            f"labels must be int64 [N], one class a node; got {labels.dtype} of shape {tuple(labels.shape)}. Agreement "
            "does not know tasks with several labels a node: use the prior alone there, prior.logit"
        )
    if train_mask.shape != labels.shape or train_mask.dtype != torch.bool:
        raise ValueError(
            f"train_mask must be bool [N] = {tuple(labels.shape)}; got {train_mask.dtype} of shape "
            f"{tuple(train_mask.shape)}"
        )
    known = labels[train_mask]
    if not len(known):
        raise ValueError("train_mask marks no node: mark the nodes whose labels may be used")
    if int(known.min()) < 0 or int(known.max()) >= num_classes:
        raise ValueError(
            f"labels of training nodes must be in 0 .. {num_classes - 1} with num_classes={num_classes}; got "
            f"{int(known.min())} .. {int(known.max())}"
        )
