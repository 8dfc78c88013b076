"""Training with one seed: the state, which a checkpoint can hold, and what an epoch does to it."""

from __future__ import annotations

import copy
import math
import os
import time
from typing import Any

import torch
from torch import Tensor, nn

from .._dgl import dgl
from ..graph import edges_of
from ..pruning import keep_edges
from ..regularizers import penalty, set_temperature, temperature
from ..threads import torch_threads
from .models import build
from .plus import EdgeBias, SelfTraining
from .results import BestState, Epoch, SeedResult, SeedRun
from .settings import LEARNED, Settings
from .tasks import Scores

_ONE_THREAD = 200_000  # edges up to which more threads cost more than they give


class NotFiniteError(ValueError):
    """The loss is NaN or infinite: training cannot go on."""


class Trainer:
    """A network in training.

    Random numbers are seeded again for every epoch, so an epoch depends only on the state, the seed and the number of
    the epoch. A run that is resumed from a checkpoint therefore computes the same bits.

    Parameters
    ----------
    task : NodeClassification or LinkPrediction
        The task, with its data.
    settings : Settings
        The settings.
    seed : int
        Seed of the initial weights, dropout, gates, the order of graphs, and neighbour sampling.
    """

    def __init__(self, task: Any, settings: Settings, seed: int) -> None:
        self.task, self.settings, self.seed = task, settings, seed
        small = max(part.source.num_edges() for part in task.parts) < _ONE_THREAD
        self.threads = settings.threads or (1 if small else os.cpu_count() or 1)
        self._seed(0)
        self.model = build(settings, task.in_feats, task.out_feats, self._edge_bias).to(settings.device)
        self.bias = EdgeBias(task, settings, seed).to(settings.device) if settings.method == "ptdnet-plus" else None
        self.teacher = SelfTraining(task, settings).to(settings.device) if settings.control == "self-training" else None
        self.optimizer = self._make_optimizer()
        self.history: list[Epoch] = []
        self.best: BestState | None = None
        self._shares: dict[int, dict[str, Tensor]] = {}

    def _make_optimizer(self) -> torch.optim.Optimizer:
        s = self.settings
        of_gates = [parameter for gate in self.model.gates for parameter in gate.parameters()]
        known = {id(parameter) for parameter in of_gates}
        groups: list[dict[str, Any]] = [{"params": [p for p in self.model.parameters() if id(p) not in known]}]
        groups.append({"params": of_gates, "lr": s.gate_lr, "weight_decay": 0.0})
        if self.bias is not None and self.bias.agreement is not None:
            options = {"lr": s.agreement_lr, "weight_decay": s.agreement_weight_decay}
            groups.append({"params": list(self.bias.parameters()), **options})
        return torch.optim.Adam(groups, lr=s.lr, weight_decay=s.weight_decay)

    def _seed(self, number: int) -> None:
        torch.manual_seed(self.seed * 1_000_003 + number)
        if self.settings.batch_size:
            with torch_threads(1):  # each DGL thread adds its number to the seed, and threads get numbers in a race
                dgl.seed((self.seed * 1_000_003 + number) % 2**31)

    def _edge_bias(self, g: Any) -> Tensor:
        assert self.bias is not None
        return self.bias(g)

    @property
    def epoch(self) -> int:
        """Number of epochs that have run."""
        return len(self.history)

    @property
    def done(self) -> bool:
        """Whether the last epoch was reached or patience ran out.

        Patience counts epochs since the best one. It does not start before ``min_epochs``, nor before the training
        score is clearly above that of always predicting the largest class.
        """
        s = self.settings
        if self.epoch >= s.epochs:
            return True
        level = self.task.chance + 0.1 * (1 - self.task.chance)
        learned = next((past.epoch for past in self.history if past.train > level), None)
        if not s.patience or learned is None or self.best is None:
            return False
        return self.epoch - 1 - max(self.best.epoch, s.min_epochs - 1, learned) >= s.patience

    def run_epoch(self) -> Epoch:
        """Trains for an epoch, validates, and keeps the state if it is the best so far. Returns a row for the log."""
        with torch_threads(self.threads):
            return self._run_epoch()

    def _run_epoch(self) -> Epoch:
        s, begin, epoch = self.settings, time.perf_counter(), self.epoch
        self._seed(epoch + 1)
        tau = temperature(epoch, start=s.tau, decay=s.tau_decay, minimum=s.tau_minimum)
        set_temperature(self.model, tau)
        self.optimizer.param_groups[1]["lr"] = s.gate_lr * min(1.0, (epoch + 1) / max(1, s.gate_warm_up))
        counts, losses = torch.zeros(3, dtype=torch.int64, device=s.device), []
        for step in self.task.steps():
            loss, counted = self.train_step(step)
            if not torch.isfinite(loss):
                raise NotFiniteError(
                    f"the loss is {float(loss)} in epoch {epoch} of seed {self.seed}. Train with a lower lr (it is "
                    f"{s.lr:g}), or with a smaller l0_weight, rank_weight or consistency_weight"
                )
            losses.append(loss)
            counts += counted
        scores = self.evaluate("val")
        if self.teacher is not None:
            self.teacher.observe(scores.outputs[0].float().softmax(1))
        if self.best is None or (scores.metric, -scores.loss) > (self.best.val, -self.best.val_loss):
            logits = None if self.bias is None or self.bias.agreement is None else self.bias.logits
            model = copy.deepcopy(_weights(self.model))
            self.best = BestState(epoch, scores.metric, scores.loss, model, logits)
        if self.bias is not None:
            self.bias.step(scores.outputs)
        figures = self._gate_figures(scores)
        row = Epoch(
            epoch=epoch,
            loss=float(torch.stack(losses).mean()),
            train=self.task.score(counts),
            val=scores.metric,
            val_loss=scores.loss,
            seconds=time.perf_counter() - begin,
            **{**scores.more, **figures},
        )
        self.history.append(row)
        return row

    def train_step(self, step: Any) -> tuple[Tensor, Tensor]:
        """Trains on one of the task's steps. Returns the loss, and counts for the task's score."""
        self.model.train()
        if self.bias is not None:
            self.bias.part = step.part
        self.optimizer.zero_grad()
        loss, counts = self._loss(step)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), counts

    def _loss(self, step: Any) -> tuple[Tensor, Tensor]:
        s = self.settings
        with torch.autocast(torch.device(s.device).type, torch.bfloat16, enabled=s.amp):
            draws = [self.model(step.graph, step.x) for _ in range(s.gate_samples)]
        out = draws[0] if s.gate_samples == 1 else torch.stack(draws).mean(0)
        loss, counts = self.task.loss(out, step.target)
        if self.teacher is not None:
            loss = self.teacher.loss_of(out, self.epoch)
        if s.gate_samples > 1:
            risen = min(1.0, (self.epoch + 1) / max(1, s.consistency_warm_up))
            loss = loss + risen * s.consistency_weight * self._distance(draws)
        if s.method in LEARNED:
            loss = loss + penalty(self.model, edges=s.l0_weight, rank=s.rank_weight, per_edge=True)
        if self.bias is not None:
            loss = loss + self.bias.loss()
        return loss, counts

    def _distance(self, draws: list[Tensor]) -> Tensor:
        """The consistency loss: squared distances of the outputs of several gate samples from a common target, summed
        over samples. The target is their mean, or, with a temperature, the mean of their probabilities, sharpened."""
        temperature, found = self.settings.consistency_temperature, torch.stack(draws).float()
        if not temperature:
            return (found - found.mean(0)).square().sum((0, 2)).mean()
        found = self.task.probabilities(found)
        target = found.detach().mean(0).pow(1 / temperature)
        target /= target.sum(-1, keepdim=True)
        return (found - target).square().sum((0, 2, 3)).mean()

    @torch.no_grad()
    def evaluate(self, split: str) -> Scores:
        """Scores of the network in its present state on ``"val"`` or ``"test"``."""
        self.model.eval()
        amp = torch.autocast(torch.device(self.settings.device).type, torch.bfloat16, enabled=self.settings.amp)
        with torch_threads(self.threads), amp:
            return self.task.evaluate(self.model, split)

    def _gate_figures(self, scores: Any) -> dict[str, Any]:
        """For each layer, on the last graph that was evaluated: the share of edges kept, and the mean gate of edges
        between nodes with equal and with different labels. Self-loops do not count."""
        if self.settings.method not in ("neuralsparse", *LEARNED):
            return {}
        part = max(scores.outputs)
        if part not in self._shares:
            self._shares[part] = _shares(self.task.parts[part].graph)
        shares = self._shares[part]
        of_layers = [gate.gates for gate in self.model.gates]
        figures = {"edges_kept": tuple(float((z > 0).double() @ shares["proper"]) for z in of_layers)}
        for name in [name for name in shares if name != "proper"]:
            figures[f"gate_{name}"] = tuple(float(z.double() @ shares[name]) for z in of_layers)
        return figures

    def finish(self) -> SeedRun:
        """Sets the network to the best state and tests it."""
        with torch_threads(self.threads):
            return self._finish()

    def _finish(self) -> SeedRun:
        assert self.best is not None
        self.restore(self.best)
        val, test = self.evaluate("val"), self.evaluate("test")
        result = SeedResult(
            seed=self.seed,
            metric=self.task.metric,
            val=self.best.val,
            test=test.metric,
            val_loss=self.best.val_loss,
            best_epoch=self.best.epoch,
            epochs=self.epoch,
            epoch_seconds=float(torch.tensor([row.seconds for row in self.history]).median()),
            **{**val.more, **test.more, **self._gate_figures(test)},
        )
        return SeedRun(result, self.history, self._degrees(test), self.best)

    def restore(self, best: BestState) -> None:
        """Sets the network, and the bias of its edges, to the best state of a run."""
        missing = _weights(self.model).keys() - best.model.keys()
        if missing:
            raise ValueError(f"the saved model has no {', '.join(sorted(missing))}: it is that of another network")
        self.model.load_state_dict({**self.model.state_dict(), **best.model})
        if self.bias is not None and best.logits is not None:
            self.bias.set_logits(best.logits)

    @torch.no_grad()
    def denoised(self, threshold: float = 0.0, layer: int | None = None) -> list[Any]:
        """The graphs of the data without the edges that the network drops.

        Parameters
        ----------
        threshold : float
            Edges with a gate above this value stay; self-loops always stay. Default: 0.
        layer : int, optional
            The layer whose gates count, from 1. Default: an edge stays if any layer keeps it.

        Returns
        -------
        list[DGLGraph]
            Graphs with all nodes and their data, and the edges that stay with their data. ``edata[dgl.EID]`` has their
            ids in the original graph, and ``edata["gate"]``, :math:`(E, L)`, their gates in each layer.
        """
        if self.settings.method in ("basic", "mlp", "dropedge"):
            raise ValueError(f"prune needs learned gates, which {self.settings.method} has not. Choose another method")
        if self.settings.task != "node":
            raise ValueError(
                "prune is for node classification: in link prediction the network sees only a part of the edges"
            )
        if not math.isfinite(threshold):
            raise ValueError(f"threshold must be a finite number; got {threshold}")
        if layer is not None and not 1 <= layer <= self.settings.layers:
            raise ValueError(f"layer must be from 1 to {self.settings.layers}; got {layer}")
        self.model.eval()
        graphs = []
        for part in self.task.parts:
            with torch_threads(self.threads):
                self.model(part.graph, part.x)
            src, dst = part.source.edges()
            z = torch.ones(len(src), self.settings.layers)
            proper = src != dst  # they come first in the network's graph, in the same order
            gates = torch.stack([gate.gates for gate in self.model.gates], 1).cpu()
            z[proper.cpu()] = gates[: int(proper.sum())]
            strongest = z.amax(1) if layer is None else z[:, layer - 1]
            kept = (strongest > threshold).nonzero().flatten().to(src.device)
            small = keep_edges(part.source, kept)
            small.edata["gate"] = z.to(src.device)[kept]
            graphs.append(small)
        return graphs

    def _degrees(self, scores: Any) -> dict[str, list[int]]:
        """How many nodes have 0, 1, 2, ... edges without self-loops, in the graph that was evaluated last and in what
        each layer keeps of it."""
        g = self.task.parts[max(scores.outputs)].graph
        index = edges_of(g).index
        proper = index.src != index.dst
        kept = {"all edges": proper}
        if self.settings.method in (*LEARNED, "neuralsparse"):
            kept.update({f"layer {k}": proper & (gate.gates > 0) for k, gate in enumerate(self.model.gates, 1)})
        in_degrees = {name: index.dst[mask].long().bincount(minlength=g.num_nodes()) for name, mask in kept.items()}
        return {name: degree.bincount().tolist() for name, degree in in_degrees.items()}

    def _parts(self) -> dict[str, Any]:
        parts = {"model": self.model, "bias": self.bias, "teacher": self.teacher}
        return {name: part for name, part in {**parts, "optimizer": self.optimizer}.items() if part is not None}

    def state_dict(self) -> dict[str, Any]:
        states = {name: module.state_dict() for name, module in self._parts().items()}
        best = None if self.best is None else self.best.to_state()
        return {**states, "history": [row.to_json() for row in self.history], "best": best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, module in self._parts().items():
            module.load_state_dict(state[name])
        self.history = [Epoch.from_json(row) for row in state["history"]]
        self.best = None if state["best"] is None else BestState.from_state(state["best"])


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """The state that evaluation depends on: not where the low-rank term starts from."""
    return {name: value for name, value in model.state_dict().items() if not name.endswith("_extra_state")}


def _shares(g: Any) -> dict[str, Tensor]:
    """Weights [E] whose product with gates is a mean over edges: over all edges without self-loops and, if nodes have
    one label each, over those between equal and between different labels."""
    index, label = edges_of(g).index, g.ndata["label"]
    proper = index.src != index.dst
    chosen = {"proper": proper}
    if label.dim() == 1:
        src, dst = label[index.src.long()], label[index.dst.long()]
        known = proper & (src >= 0) & (dst >= 0)
        chosen.update(same=known & (src == dst), other=known & (src != dst))
    return {name: mask.double() / mask.sum().clamp(min=1) for name, mask in chosen.items()}
