"""Graphs and features that the tests of gates share."""

import dgl
import torch

FEATS = 6


def undirected(nodes=40, edges=120, seed=0):
    """Both directions of random pairs, no self-loops, shuffled."""
    generator = torch.Generator().manual_seed(seed)
    src, dst = torch.randint(0, nodes, (2, edges), generator=generator)
    pairs = torch.stack([torch.minimum(src, dst), torch.maximum(src, dst)])[:, src != dst].unique(dim=1)
    both = torch.cat([pairs, pairs.flip(0)], 1)
    both = both[:, torch.randperm(both.shape[1], generator=generator)]
    return dgl.graph((both[0], both[1]), num_nodes=nodes)


def features(g, seed=1):
    return torch.randn(g.num_src_nodes(), FEATS, generator=torch.Generator().manual_seed(seed))
