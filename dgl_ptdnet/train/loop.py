"""One run with one seed: a state that a checkpoint can hold, and what an epoch does to it."""

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
from .memory import keep_freed_memory
from .models import build
from .plus import EdgeBias, SelfTraining
from .settings import LEARNED, Settings
from .tasks import Scores

_ONE_THREAD = 200_000  # edges up to which more threads cost more than they give


class NotFiniteError(ValueError):
    """A loss that is no number: training cannot go on."""


class Trainer:
    """A network in training.

    An epoch is a function of the state, the seed and the number of the epoch: random numbers are seeded anew for each.
    So a run that goes on from a checkpoint goes on with the same bits.

    Parameters
    ----------
    task : NodeClassification or LinkPrediction
        What is learned.
    settings : Settings
        How.
    seed : int
        Of initial weights, dropout, gates, order of graphs and samples.
    """

    def __init__(self, task: Any, settings: Settings, seed: int) -> None:
        keep_freed_memory()
        self.task, self.settings, self.seed = task, settings, seed
        small = max(part.source.num_edges() for part in task.parts) < _ONE_THREAD
        self.threads = settings.threads or (1 if small else os.cpu_count() or 1)
        self._seed(0)
        self.model = build(settings, task.in_feats, task.out_feats, self._edge_bias).to(settings.device)
        self.bias = EdgeBias(task, settings, seed).to(settings.device) if settings.method == "ptdnet-plus" else None
        self.teacher = SelfTraining(task, settings).to(settings.device) if settings.control == "self-training" else None
        self.optimizer = self._make_optimizer()
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] = {}
        self._shares: dict[int, dict[str, Tensor]] = {}

    def _make_optimizer(self) -> torch.optim.Optimizer:
        s = self.settings
        of_gates = [parameter for gate in self.model.gates for parameter in gate.parameters()]
        known = {id(parameter) for parameter in of_gates}
        groups: list[dict[str, Any]] = [{"params": [p for p in self.model.parameters() if id(p) not in known]}]
        groups.append({"params": of_gates, "lr": s.gate_lr, "weight_decay": 0.0})
        if self.bias is not None and self.bias.agreement is not None:
            groups.append({"params": list(self.bias.agreement.parameters()), "lr": 0.01, "weight_decay": 1e-4})
        return torch.optim.Adam(groups, lr=s.lr, weight_decay=s.weight_decay)

    def _seed(self, number: int) -> None:
        torch.manual_seed(self.seed * 1_000_003 + number)
        if self.settings.batch_size:
            with torch_threads(1):  # each of DGL's threads has a number that a race gives it, and seeds with it
                dgl.seed((self.seed * 1_000_003 + number) % 2**31)

    def _edge_bias(self, g: Any) -> Tensor:
        assert self.bias is not None
        return self.bias(g)

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.history)

    @property
    def done(self) -> bool:
        """Whether the last epoch was reached, or patience ran out.

        Patience is counted from the best epoch, but not before ``min_epochs``, nor before training itself has left what
        the largest class gives: a run that has not trained yet has nothing to stop for.
        """
        s = self.settings
        if self.epoch >= s.epochs:
            return True
        level = self.task.chance + 0.1 * (1 - self.task.chance)
        learned = next((past["epoch"] for past in self.history if past["train"] > level), None)
        if not s.patience or learned is None:
            return False
        return self.epoch - 1 - max(self.best["epoch"], s.min_epochs - 1, learned) >= s.patience

    def run_epoch(self) -> dict[str, Any]:
        """Trains for an epoch, evaluates, remembers the best, and returns what the log says of it."""
        with torch_threads(self.threads):
            return self._run_epoch()

    def _run_epoch(self) -> dict[str, Any]:
        s, begin, epoch = self.settings, time.perf_counter(), self.epoch
        self._seed(epoch + 1)
        tau = temperature(epoch, start=s.tau, decay=s.tau_decay, minimum=s.tau_least)
        set_temperature(self.model, tau)
        self.optimizer.param_groups[1]["lr"] = s.gate_lr * min(1.0, (epoch + 1) / max(1, s.gate_warm_up))
        if self.bias is not None:
            self.bias.begin(epoch)
        counts, losses = torch.zeros(3, dtype=torch.int64, device=s.device), []
        for step in self.task.steps():
            loss, counted = self.train_step(step)
            if not torch.isfinite(loss):
                raise NotFiniteError(
                    f"the loss is {float(loss)} in epoch {epoch} of seed {self.seed}. Train with a lower lr (it is "
                    f"{s.lr:g}), or with smaller weights of edges, rank and consistency"
                )
            losses.append(loss)
            counts += counted
        scores = self.evaluate("val")
        if self.bias is not None:
            self.bias.observe(scores.outputs)
        if self.teacher is not None:
            self.teacher.observe(scores.outputs[0].float().softmax(1))
        row = {
            "epoch": epoch,
            "loss": float(torch.stack(losses).mean()),
            "train": self.task.score(counts),
            "val": scores.metric,
            "val_loss": scores.loss,
            **scores.more,
            **self._gate_figures(scores),
            "seconds": 0.0,
        }
        if not self.best or (row["val"], -row["val_loss"]) > (self.best["val"], -self.best["val_loss"]):
            self.best = {name: row[name] for name in ("epoch", "val", "val_loss")}
            self.best["model"] = copy.deepcopy(_weights(self.model))
            if self.bias is not None and self.bias.agreement is not None:
                self.best["logits"] = self.bias.logits
        row["seconds"] = time.perf_counter() - begin
        self.history.append(row)
        return row

    def train_step(self, step: Any) -> tuple[Tensor, Tensor]:
        """Trains on one of the task's steps; returns the loss, and counts for the task's score."""
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
            draws = [self.model(step.graph, step.x) for _ in range(s.samples)]
        out = draws[0] if s.samples == 1 else torch.stack(draws).mean(0)
        loss, counts = self.task.loss(out, step.target)
        if self.teacher is not None:
            loss = self.teacher.loss_of(out, self.epoch)
        if s.samples > 1:
            risen = min(1.0, (self.epoch + 1) / max(1, s.consistency_warm_up))
            loss = loss + risen * s.consistency * self._distance(draws)
        if s.method in LEARNED:
            loss = loss + penalty(self.model, edges=s.edges, rank=s.rank, per_edge=True)
        if self.bias is not None:
            loss = loss + self.bias.loss(self.epoch)
        return loss, counts

    def _distance(self, draws: list[Tensor]) -> Tensor:
        """Of several draws from what they should agree on, summed over draws: their mean, or, where the settings
        sharpen, what the mean of their probabilities says more surely."""
        sharpen, found = self.settings.sharpen, torch.stack(draws).float()
        if not sharpen:
            return (found - found.mean(0)).square().sum((0, 2)).mean()
        found = self.task.probabilities(found)
        target = found.detach().mean(0).pow(1 / sharpen)
        target /= target.sum(-1, keepdim=True)
        return (found - target).square().sum((0, 2, 3)).mean()

    @torch.no_grad()
    def evaluate(self, split: str) -> Scores:
        """The network as it is, on ``"val"`` or ``"test"``."""
        self.model.eval()
        amp = torch.autocast(torch.device(self.settings.device).type, torch.bfloat16, enabled=self.settings.amp)
        with torch_threads(self.threads), amp:
            return self.task.evaluate(self.model, split)

    def _gate_figures(self, scores: Any) -> dict[str, list[float]]:
        """Of each layer, in the last graph that was evaluated: the share of edges kept, and the mean gate of edges
        between nodes of the same and of different labels. Self-loops do not count."""
        if self.settings.method not in ("neuralsparse", *LEARNED):
            return {}
        part = max(scores.outputs)
        if part not in self._shares:
            self._shares[part] = _shares(self.task.parts[part].graph)
        shares = self._shares[part]
        of_layers = [gate.gates for gate in self.model.gates]
        figures = {"kept": [float((z > 0).double() @ shares["proper"]) for z in of_layers]}
        for name in [name for name in shares if name != "proper"]:
            figures[f"gate_{name}"] = [float(z.double() @ shares[name]) for z in of_layers]
        return figures

    def finish(self) -> dict[str, Any]:
        """The figures of the best state, to which the network is brought."""
        with torch_threads(self.threads):
            return self._finish()

    def _finish(self) -> dict[str, Any]:
        self.restore(self.best)
        val, test = self.evaluate("val"), self.evaluate("test")
        result = {
            "seeds": self.seed,
            "metric": self.task.metric,
            "val": self.best["val"],
            "test": test.metric,
            **val.more,
            **test.more,
            **self._gate_figures(test),
            "best_epoch": self.best["epoch"],
            "epochs": self.epoch,
            "epoch_seconds": float(torch.tensor([row["seconds"] for row in self.history]).median()),
        }
        return {"result": result, "history": self.history, "degrees": self._degrees(test), "best": self.best}

    def restore(self, best: dict[str, Any]) -> None:
        """Brings the network, and the bias of its edges, to the best state of a run."""
        missing = _weights(self.model).keys() - best["model"].keys()
        if missing:
            raise ValueError(f"the saved model has no {', '.join(sorted(missing))}: it is that of another network")
        self.model.load_state_dict({**self.model.state_dict(), **best["model"]})
        if self.bias is not None and "logits" in best:
            self.bias.set_logits(best["logits"])

    @torch.no_grad()
    def denoised(self, threshold: float = 0.0, layer: int | None = None) -> list[Any]:
        """The data's graphs without the edges that the network drops.

        Parameters
        ----------
        threshold : float
            Edges whose gate is above it stay, and so do self-loops.
        layer : int, optional
            The layer that counts, from 1. Default: an edge stays if any layer keeps it.

        Returns
        -------
        list[DGLGraph]
            All nodes and their data; the kept edges with their data, their numbers before in ``edata[dgl.EID]`` and
            the gates of the layers in ``edata["gate"]``, :math:`(E, L)`.
        """
        if self.settings.method in ("basic", "mlp", "dropedge"):
            raise ValueError(f"{self.settings.method} drops no edges of a trained network. Choose another method")
        if self.settings.task != "node":
            raise ValueError("prune is for node classification: a network of links knows only a part of the edges")
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
        """How many nodes have 0, 1, 2, ... edges, self-loops not counted: in the graph that was evaluated last, and in
        what each layer keeps of it."""
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
        return {**states, "history": self.history, "best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, module in self._parts().items():
            module.load_state_dict(state[name])
        self.history, self.best = state["history"], state["best"]


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """The state that evaluation depends on: not where the low-rank term starts from."""
    return {name: value for name, value in model.state_dict().items() if not name.endswith("_extra_state")}


def _shares(g: Any) -> dict[str, Tensor]:
    """Weights [E] that make a mean over edges: over those that are no self-loops, and, where nodes have one label each,
    over those of them that join the same and different labels."""
    index, label = edges_of(g).index, g.ndata["label"]
    proper = index.src != index.dst
    chosen = {"proper": proper}
    if label.dim() == 1:
        src, dst = label[index.src.long()], label[index.dst.long()]
        known = proper & (src >= 0) & (dst >= 0)
        chosen.update(same=known & (src == dst), other=known & (src != dst))
    return {name: mask.double() / mask.sum().clamp(min=1) for name, mask in chosen.items()}
