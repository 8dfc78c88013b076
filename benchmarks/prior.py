"""The density prior on a generated graph: time, and peak memory of the whole process.

python benchmarks/prior.py                         1 M edges, 100 k nodes, 64 features
python benchmarks/prior.py --edges 10_000_000 --nodes 1_000_000

Half of the edges join nodes of the same group, out of 1,000 groups; the others join any two nodes. The degrees of
destinations follow a power law, so there are hubs. A node's features are its group's plus noise. Results go to
out/prior.json.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import torch
from common import machine, random_edges, save, table

import dgl_ptdnet as ptd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=1_000_000, help="default 1,000,000")
    parser.add_argument("--nodes", type=int, default=100_000, help="default 100,000")
    parser.add_argument("--feats", type=int, default=64, help="default 64")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="default all cores")
    parser.add_argument("--out", type=Path, default=Path("out/prior.json"), help="default out/prior.json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    generator = torch.Generator().manual_seed(0)
    groups = min(1000, args.nodes)
    src, dst = random_edges(args.edges, args.nodes, power_law=True)
    group = torch.arange(args.nodes) % groups
    inside = torch.arange(args.edges) % 2 == 0
    same = src - group[src] + group[dst]  # a node near the old source that is in the destination's group
    src = torch.where(inside, same.clamp(max=args.nodes - 1), src)
    x = torch.randn(groups, args.feats, generator=generator)[group]
    x += torch.randn(args.nodes, args.feats, generator=generator)
    index = ptd.EdgeIndex(src, dst, args.nodes, args.nodes)

    begin = time.perf_counter()
    prior = ptd.density_prior(index, x)
    result = {
        "nodes": args.nodes,
        "edges": args.edges,
        "feats": args.feats,
        "threads": args.threads,
        "seconds": time.perf_counter() - begin,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "noise_share": prior.noise_share,
        "real_inside": float(prior.real[inside].mean()),
        "real_anywhere": float(prior.real[~inside].mean()),
    }
    print(table([[name, f"{x:,.2f}" if isinstance(x, float) else f"{x:,}"] for name, x in result.items()]))
    save(args.out, {"machine": machine(), **result})


if __name__ == "__main__":
    main()
