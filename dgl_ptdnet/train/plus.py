"""What ptdnet-plus adds: a bias for every edge, from the density prior and from agreement; and a control for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..agreement import Agreement
from ..denoiser import Denoiser
from ..graph import edges_of
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
        agreement = None
        if settings.agreement and settings.task == "node" and not task.multilabel and len(self.parts) == 1:
            nodes = self.parts[0].graph.ndata
            nodes = (nodes["feat"], nodes["label"], nodes["train_mask"])
            agreement = Agreement(*nodes, task.out_feats, **agreement_options(settings))
        priors = [_prior(part.graph, settings.prior, seed) for part in self.parts]
        self.denoisers = [Denoiser.of_prior(part.graph, p, agreement) for part, p in zip(self.parts, priors)]
        self.learned = nn.ModuleList(self.denoisers)  # for their parameters and state
        self.part = 0

    @property
    def agreement(self) -> Agreement | None:
        """What learns beside the network, if anything does."""
        return self.denoisers[0].agreement

    @property
    def logits(self) -> list[Tensor]:
        """The log-odds of each graph's edges."""
        return [denoiser.bias for denoiser in self.denoisers]

    def set_logits(self, logits: list[Tensor]) -> None:
        """Sets the log-odds of each graph's edges."""
        for denoiser, logit in zip(self.denoisers, logits):
            denoiser.bias = logit.to(denoiser.bias.device)

    def forward(self, g: Any) -> Tensor:
        """The log-odds of every edge of a graph or block, :math:`(E,)`."""
        edges = edges_of(g)
        if edges.sampled:
            return self.denoisers[self.part](g)
        known = [denoiser for part, denoiser in zip(self.parts, self.denoisers) if edges_of(part.graph) is edges]
        return known[0](g)

    def loss(self) -> Tensor:
        """What agreement learns by, apart from the task."""
        return self.denoisers[0].loss()

    def step(self, outputs: dict[int, Tensor]) -> None:
        """Ends an epoch, with the network's outputs in evaluation."""
        if self.agreement is not None:
            self.denoisers[0].step(outputs[0].float().softmax(1))


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
