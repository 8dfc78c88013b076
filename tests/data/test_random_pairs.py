"""Random pairs of nodes."""

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from dgl_ptdnet.data.random_pairs import draw_pairs
from dgl_ptdnet.data.undirected import ids_of_pairs


@pytest.mark.parametrize(("num_nodes", "taken"), [(4, [(0, 1), (0, 2)]), (9, [(0, 1)])])  # from a list, and by chance
@pytest.mark.parametrize("law", ["uniform", "different", "same", "first", "both"])
def test_pairs_are_as_likely_as_their_weights_say(num_nodes, taken, law):
    weights, taken = np.arange(1.0, num_nodes + 1), ids_of_pairs(*np.array(taken).T)
    labels = np.arange(num_nodes) if law in ("uniform", "both") else np.arange(num_nodes) % 2
    same = law == "same"
    first, second = (weights if law in ("first", "both") else None), (weights if law == "both" else None)
    u, v = np.triu_indices(num_nodes, 1)
    allowed = ((labels[u] == labels[v]) == same) & ~np.isin(ids_of_pairs(u, v), taken)
    u, v = u[allowed], v[allowed]
    expected = np.ones(len(u))
    if law == "first":
        partners = (labels[:, None] != labels).sum(1)
        expected = weights[u] / partners[u] + weights[v] / partners[v]
    elif law == "both":
        expected = weights[u] * weights[v]
    rng = np.random.default_rng(0)
    args = {"same": same, "taken": taken, "first": first, "second": second}
    drawn = [draw_pairs(rng, 1, labels, **args) for _ in range(3000)]
    found = np.bincount([int(a[0]) * num_nodes + int(b[0]) for a, b in drawn], minlength=num_nodes**2)
    assert found.sum() == found[u * num_nodes + v].sum()
    expected *= 3000 / expected.sum()
    assert len(u) == 1 or scipy.stats.chisquare(found[u * num_nodes + v], expected).pvalue > 1e-3
