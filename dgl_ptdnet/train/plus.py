"""What ptdnet-plus adds: a bias for every edge, from the density prior and from agreement; and a control for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..agreement import Agreement
from ..graph import edge_ids, edges_of
from ..prior import CAP, Prior, density_prior
from .settings import Settings


class EdgeBias(nn.Module):
    """The log-odds that the gates of ptdnet-plus start from, for every edge of a task's graphs.

    Called as ``bias(g)`` with one of the graphs, or with a block sampled from graph number ``part``. The prior is
    computed once. Agreement is for tasks with one label a node and one graph; other tasks use the prior alone.
    """

    def __init__(self, task: Any, settings: Settings, seed: int) -> None:
        super().__init__()
        self.parts = task.parts
        self.priors = [_prior(part.graph, settings.prior, seed) for part in self.parts]
        self.agreement = None
        if settings.agreement and settings.task == "node" and not task.multilabel and len(self.parts) == 1:
            g = self.parts[0].graph
            nodes = (g.ndata["feat"], g.ndata["label"], g.ndata["train_mask"])
            self.agreement = Agreement(*nodes, task.out_feats, **agreement_options(settings))
        self.part = 0
        self.set_logits([prior.logit for prior in self.priors])

    def set_logits(self, logits: list[Tensor]) -> None:
        """Sets the log-odds of each graph's edges."""
        self.logits = [logit.to(part.graph.device) for part, logit in zip(self.parts, logits)]

    def forward(self, g: Any) -> Tensor:
        """The log-odds of every edge of a graph or block, :math:`(E,)`."""
        edges = edges_of(g)
        if edges.sampled:
            return self.logits[self.part][edge_ids(g)]
        return next(logit for part, logit in zip(self.parts, self.logits) if edges_of(part.graph) is edges)

    def begin(self, epoch: int) -> None:
        """Sets the log-odds for an epoch."""
        if self.agreement is not None:
            self.set_logits([self.agreement.edge_bias(self.parts[0].graph, self.priors[0], epoch)])

    def loss(self, epoch: int) -> Any:
        """What agreement learns by, apart from the task."""
        return 0 if self.agreement is None else self.agreement.loss(epoch)

    def observe(self, outputs: dict[int, Tensor]) -> None:
        """The network's outputs in evaluation."""
        if self.agreement is not None:
            self.agreement.observe(outputs[0].float().softmax(1))


def agreement_options(settings: Settings) -> dict[str, Any]:
    """The arguments of :class:`Agreement` that are settings."""
    s = settings
    return {"homophily": s.agreement_homophily, "warmup": s.agreement_warm_up, "ramp": s.agreement_ramp}


def _prior(g: Any, wanted: bool, seed: int) -> Prior:
    """Without a prior every edge is taken for real."""
    if wanted:
        return density_prior(g, g.ndata["feat"], seed=seed)
    return Prior(torch.full((g.num_edges(),), CAP, device=g.device), 0.0)


class SelfTraining(Agreement):
    """Teaches a network the targets that :class:`Agreement` teaches its encoder: first the training labels, then the
    network's own averaged answers."""

    def __init__(self, task: Any, settings: Settings) -> None:
        if task.multilabel or settings.task != "node" or settings.batch_size or len(task.parts) > 1:
            raise ValueError("control = self-training is for one label a node and one whole graph a step")
        nodes = task.parts[0].graph.ndata
        x = torch.ones(len(nodes["label"]), 1)  # not used
        options = agreement_options(settings)
        super().__init__(x, nodes["label"], nodes["train_mask"], task.out_feats, **options)
        self.hidden, self.out = nn.Identity(), nn.Identity()  # type: ignore[assignment]
        self.answers = torch.empty(0)

    def logits(self, drop: bool = False) -> Tensor:
        return self.answers

    def loss_of(self, answers: Tensor, epoch: int) -> Tensor:
        """The loss of a network's answers for all nodes, :math:`(N, C)`."""
        self.answers = answers
        return self.loss(epoch)
