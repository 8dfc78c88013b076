"""CPU time of an epoch of PTDNet-GCN on Cora, beside that of the authors' code.

python benchmarks/epoch.py --data-dir DIR         DIR in DGL's raw layout; without it DGL downloads Cora
python benchmarks/epoch.py --compare old.json     and fail if a ratio grew by more than --slack (default 1.25)

An epoch is one of `dgl-ptdnet train --dataset cora --backbone gcn --method ptdnet --hidden 256`: a step of training
with both regularisers, and the evaluation. The authors' code needed 4.9 s of CPU time for an epoch with K = 1, and
55.8 s with K = 16, on the machine that the project is developed on. Results go to out/epoch.json.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from common import add_comparison, compare, machine, save, table

from dgl_ptdnet.train import resolve
from dgl_ptdnet.train.loop import Trainer
from dgl_ptdnet.train.memory import keep_freed_memory
from dgl_ptdnet.train.run import make_data
from dgl_ptdnet.train.tasks import make_task

AUTHORS = {1: 4.9, 16: 55.8}  # CPU seconds, by K
WARM_UP = 10  # epochs; in the first ones the low-rank term takes longer


def milliseconds(k: int, epochs: int, data_dir: Path | None) -> float:
    settings = resolve(dataset="cora", backbone="gcn", method="ptdnet", hidden=256, rank_k=k)
    trainer = Trainer(make_task(make_data(settings, 0, data_dir=data_dir), settings, 0), settings, 0)
    times = []
    for _ in range(WARM_UP + epochs):
        begin = time.process_time()
        trainer.run_epoch()
        times.append(1e3 * (time.process_time() - begin))
    return statistics.fmean(times[WARM_UP:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with Cora in DGL's raw layout")
    parser.add_argument("--epochs", type=int, default=100, help="epochs that are timed (default 100)")
    parser.add_argument("--out", type=Path, default=Path("out/epoch.json"), help="default out/epoch.json")
    add_comparison(parser)
    args = parser.parse_args()
    keep_freed_memory()  # as the command line does
    rows, ratios = [["", "CPU ms an epoch", "the authors'", "times faster"]], {}
    for k, seconds in AUTHORS.items():
        ms = milliseconds(k, args.epochs, args.data_dir)
        ratios[f"K = {k}: ms / authors' ms"] = ms / (1e3 * seconds)
        rows.append([f"K = {k}", f"{ms:.1f}", f"{1e3 * seconds:,.0f}", f"{1e3 * seconds / ms:.0f}"])
    print(table(rows))
    save(args.out, {"machine": machine(), "ratios": ratios})
    if args.compare:
        compare(args.compare, ratios, args.slack)


if __name__ == "__main__":
    main()
