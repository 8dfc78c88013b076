"""Training by mini-batches on a generated graph of 10 M edges and 1 M nodes: memory and speed.

python benchmarks/large.py                         PTDNet-wl on SAGE, 100 steps of 1,024 nodes
python benchmarks/large.py --steps 0               a whole epoch (586 steps)

Every step samples neighbours with DGL's sampler (10 for each node in both layers), gates the sampled edges, and trains.
An edge has the same draw in a sample as in the whole graph. edges_a_second counts the sampled edges of both layers. The
peak memory is that of the whole process: data, graph, sampler, training, and an evaluation on the whole graph. Results
go to out/large.json.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from pathlib import Path

from common import machine, save, table

from dgl_ptdnet.data import random_graph
from dgl_ptdnet.threads import torch_threads
from dgl_ptdnet.train import resolve
from dgl_ptdnet.train.loop import Trainer
from dgl_ptdnet.train.memory import keep_freed_memory
from dgl_ptdnet.train.tasks import make_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000, help="default 1,000,000")
    parser.add_argument("--edges", type=int, default=10_000_000, help="default 10,000,000")
    parser.add_argument("--backbone", default="sage", help="gcn, sage, gat or gin; default sage")
    parser.add_argument(
        "--method",
        default="ptdnet-wl",
        help="default ptdnet-wl: without the low-rank term, which would start cold on every sample",
    )
    parser.add_argument("--batch-size", type=int, default=1024, help="default 1024")
    parser.add_argument("--steps", type=int, default=100, help="training steps; 0: a whole epoch (default 100)")
    parser.add_argument("--out", type=Path, default=Path("out/large.json"), help="default out/large.json")
    args = parser.parse_args()
    keep_freed_memory()  # as the command line does
    begin = time.perf_counter()
    data = random_graph(args.nodes, args.edges)
    settings = resolve(
        dataset="random",
        backbone=args.backbone,
        method=args.method,
        batch_size=args.batch_size,
        fanouts=(10, 10),
    )
    trainer = Trainer(make_task(data, settings, 0), settings, 0)
    made = time.perf_counter() - begin
    whole = -(-int(data.graph.ndata["train_mask"].sum()) // args.batch_size)

    steps = min(args.steps or whole, whole)
    with torch_threads(trainer.threads):
        trainer.train_step(
            next(trainer.task.steps())
        )  # a first step, which makes everything that is made once, such as the graph's CSC form
        begin, edges = time.perf_counter(), 0
        for step in itertools.islice(trainer.task.steps(), steps):
            loss, _ = trainer.train_step(step)
            edges += sum(block.num_edges() for block in step.graph)
        seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    accuracy = trainer.evaluate("val").metric  # the whole graph at once
    result = {
        "nodes": data.graph.num_nodes(),
        "edges": data.graph.num_edges(),
        "backbone": args.backbone,
        "method": args.method,
        "steps": steps,
        "seconds_to_make": made,
        "edges_a_second": edges / seconds,
        "seconds_an_epoch": seconds / steps * whole,
        "seconds_to_evaluate": time.perf_counter() - begin,
        "loss": float(loss),
        "validation_accuracy": accuracy,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print(
        table(
            [
                [name, f"{x:,.2f}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else str(x)]
                for name, x in result.items()
            ]
        )
    )
    save(args.out, {"machine": machine(), **result})


if __name__ == "__main__":
    main()
