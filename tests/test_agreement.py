"""Agreement: its formula against plain loops, what its loss learns, resuming, odd input; what both additions give."""

import copy
import math
from pathlib import Path

import dgl
import pytest
import torch
from graphs import some_features
from torch.nn import functional

import dgl_ptdnet as ptd
from dgl_ptdnet.agreement import Agreement
from dgl_ptdnet.data import add_noise_edges, load
from dgl_ptdnet.prior import Prior, density_prior
from dgl_ptdnet.sparse import SparseRows, dropout

SHARED = Path(__file__).parents[1].parent / "shared" / "datasets"
real_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"there is no {SHARED}")


def some_agreement(nodes=40, classes=3, kind="words", **options):
    torch.manual_seed(0)
    x = some_features(nodes, 9, kind)
    labels = torch.arange(nodes) % classes
    train = torch.arange(nodes) % 4 == 0
    train[:3] = True
    g = dgl.rand_graph(nodes, 150)
    return Agreement(x, labels, train, classes, **options), g, x, labels, train


@pytest.mark.parametrize("kind", ["few words", "words", "dense"])
def test_the_bias_is_that_of_plain_loops(kind):
    agreement, g, x, labels, train = some_agreement(homophily=0.7, kind=kind)
    assert isinstance(agreement.x, SparseRows) == (kind == "few words")
    agreement.double()
    prior = Prior(torch.rand(150, dtype=torch.float64).clamp(0.01, 0.99), 0.5)
    unit = torch.stack([row / row.norm() if row.norm() else row for row in x.double()])
    p = agreement.out(torch.relu(agreement.hidden(unit))).softmax(1).detach()
    k = sum(float((labels[train] == c).double().mean()) ** 2 for c in range(3))
    want: dict = {True: [], False: []}
    for u, v, real in zip(*(end.tolist() for end in g.edges()), prior.real.tolist()):
        q = min(0.99, max(0.01, float(p[u] @ p[v])))
        for pi in (real, 0.99):
            ratio = (pi * 0.7 / k + 1 - pi) / (pi * 0.3 / (1 - k) + 1 - pi)
            want[pi is real].append(math.log(q / (1 - q)) + math.log(ratio))
    for given in (prior, None):
        full = torch.tensor(want[given is prior])
        start = prior.logit if given is prior else torch.full((150,), math.log(99.0))
        for epoch, moved in ((0, 0.0), (60, 0.0), (66, 0.2), (90, 1.0), (1000, 1.0)):
            bias = agreement.edge_bias(g, given, epoch)
            assert not bias.requires_grad
            torch.testing.assert_close(bias.float(), (start + moved * (full - start)).float(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["few words", "dense"])
def test_the_loss_learns_training_labels_first_and_the_model_s_answers_later(kind):
    agreement, _, _, labels, train = some_agreement(dropout=0.0, kind=kind)
    logits = agreement.logits().detach()
    want = functional.cross_entropy(logits[train], labels[train])
    torch.testing.assert_close(agreement.loss(59), want)

    seen = [torch.rand(40, 3).softmax(1) for _ in range(3)]
    average, total = torch.zeros(40, 3), 0.0
    for k, probabilities in enumerate(seen):
        agreement.observe(probabilities)
        average += 0.9 ** (2 - k) * probabilities
        total += 0.9 ** (2 - k)
    average /= total
    loss, weights = 0.0, 0.0
    for node in range(40):
        label = int(labels[node]) if train[node] else int(average[node].argmax())
        weight = 1.0 if train[node] else float(average[node].max()) ** 2
        loss += weight * -float(logits[node].log_softmax(0)[label])
        weights += weight
    assert agreement.loss(60).item() == pytest.approx(loss / weights, rel=1e-5)


def test_labels_outside_of_the_training_nodes_do_not_matter():
    one, g, x, labels, train = some_agreement()
    hidden = torch.where(train, labels, 12345)
    torch.manual_seed(0)
    other = Agreement(x, hidden, train, 3)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.edge_bias(g, None, 100), other.edge_bias(g, None, 100))
    for epoch in (0, 100):
        losses = []
        for agreement in (one, other):
            torch.manual_seed(1)
            losses.append(agreement.loss(epoch))
        assert torch.equal(*losses)


def epochs(agreement, optimizer, g, first, last):
    biases = []
    for epoch in range(first, last):
        biases.append(agreement.edge_bias(g, None, epoch))
        probabilities = torch.rand(40, 3).softmax(1)
        agreement.observe(probabilities)
        optimizer.zero_grad()
        agreement.loss(epoch).backward()
        optimizer.step()
    return biases


@pytest.mark.parametrize("kind", ["few words", "dense"])
def test_a_run_resumed_from_its_state_goes_on_with_the_same_bits(kind):
    options = {"warmup": 4, "ramp": 3}
    agreement, g, x, labels, train = some_agreement(kind=kind, **options)
    optimizer = torch.optim.Adam(agreement.parameters(), lr=0.01, weight_decay=1e-4)
    epochs(agreement, optimizer, g, 0, 6)
    saved = copy.deepcopy((agreement.state_dict(), optimizer.state_dict(), torch.get_rng_state()))
    want = epochs(agreement, optimizer, g, 6, 12)

    resumed = Agreement(x, labels, train, 3, **options)
    optimizer = torch.optim.Adam(resumed.parameters(), lr=0.01, weight_decay=1e-4)
    resumed.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    torch.set_rng_state(saved[2])
    got = epochs(resumed, optimizer, g, 6, 12)
    assert all(torch.equal(*pair) for pair in zip(got, want))
    assert all(torch.equal(resumed.state_dict()[name], value) for name, value in agreement.state_dict().items())


def test_agreement_is_the_same_on_a_graph_and_its_index():
    agreement, g, _, _, _ = some_agreement()
    index = ptd.EdgeIndex(*g.edges(), 40, 40)
    assert torch.equal(agreement.edge_bias(g, None, 100), agreement.edge_bias(index, None, 100))
    assert agreement.edge_bias(dgl.graph(([], []), num_nodes=40), None, 100).shape == (0,)


def test_one_class_alone_gives_finite_numbers():
    agreement = Agreement(torch.rand(5, 4), torch.zeros(5, dtype=torch.int64), torch.ones(5, dtype=torch.bool), 1)
    g = dgl.graph(([0, 1], [1, 2]), num_nodes=5)
    assert agreement.edge_bias(g, None, 100).isfinite().all()
    assert agreement.loss(100).isfinite()


def test_agreement_refuses_wrong_input_with_the_argument_and_the_remedy():
    x, labels, train = torch.rand(3, 4), torch.tensor([0, 1, 1]), torch.tensor([True, False, True])
    cases = [
        ("several labels a node", (x, torch.rand(3, 2), train, 2), {}),
        ("labels must be int64", (x, labels.float(), train, 2), {}),
        (r"x must be \[N, F\] with N = 3", (x[:2], labels, train, 2), {}),
        ("train_mask must be bool", (x, labels, torch.tensor([0, 2]), 2), {}),
        ("in 0 .. 0", (x, labels, train, 1), {}),
        ("train_mask marks no node", (x, labels, torch.zeros(3, dtype=torch.bool), 2), {}),
        ("homophily must be in", (x, labels, train, 2), {"homophily": 1.0}),
        ("momentum and dropout in", (x, labels, train, 2), {"dropout": 1.0}),
        ("hidden at least 1", (x, labels, train, 2), {"hidden": 0}),
        ("momentum and dropout in", (x, labels, train, 2), {"momentum": 1.0}),
        ("warmup and ramp must be at least 0", (x, labels, train, 2), {"warmup": -1}),
    ]
    for message, arguments, options in cases:
        with pytest.raises(ValueError, match=message):
            Agreement(*arguments, **options)
    agreement = Agreement(x, labels, train, 2)
    with pytest.raises(ValueError, match=r"probabilities must be \[N, C\] = \(3, 2\)"):
        agreement.observe(torch.rand(2, 2))
    g = dgl.graph(([0], [1]), num_nodes=3)
    for graph, prior in ((g, Prior(torch.rand(5), 0.0)), (dgl.add_nodes(g, 1), None)):
        with pytest.raises(ValueError, match="make them for this graph"):
            agreement.edge_bias(graph, prior, 0)


def accuracy(g, bias_of, agreement, epochs=120):
    """Test accuracy of a GCN with two layers whose gates have the given bias and learn nothing themselves."""
    torch.manual_seed(0)
    labels, train, nodes = g.ndata["label"], g.ndata["train_mask"], g.num_nodes()
    whole = dgl.add_self_loop(g)
    index, loops = ptd.EdgeIndex(*whole.edges(), nodes, nodes), torch.ones(nodes)
    first, second = torch.nn.Linear(g.ndata["feat"].shape[1], 32), torch.nn.Linear(32, 7)
    parameters = [{"params": layer.parameters()} for layer in (first, second)]
    parameters += [{"params": agreement.parameters(), "lr": 0.01}]
    optimizer = torch.optim.Adam(parameters, lr=0.03, weight_decay=1e-4)

    def forward(z, drop):
        h = torch.relu(ptd.aggregate(index, first(dropout(agreement.x, 0.5, drop)), z, norm="both"))
        return ptd.aggregate(index, second(functional.dropout(h, 0.5, drop)), z, norm="both")

    for epoch in range(epochs):
        z = torch.cat([(torch.sigmoid(bias_of(epoch)) * 1.2 - 0.1).clamp(0, 1), loops])
        with torch.no_grad():
            agreement.observe(forward(z, False).softmax(1))
        loss = functional.cross_entropy(forward(z, True)[train], labels[train]) + agreement.loss(epoch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return (forward(z, False).argmax(1) == labels)[g.ndata["test_mask"]].float().mean().item()


@real_data
def test_both_additions_lift_a_gcn_on_cora_with_noise(threads):
    threads(1)
    g = add_noise_edges(load("cora", SHARED).graph, 20_000, seed=0)
    x, labels, train = g.ndata["feat"], g.ndata["label"], g.ndata["train_mask"]
    prior, open_gates = density_prior(g, x), torch.full((g.num_edges(),), 10.0)
    biases = {
        "none": lambda agreement, epoch: open_gates,
        "prior": lambda agreement, epoch: prior.logit,
        "both": lambda agreement, epoch: agreement.edge_bias(g, prior, epoch),
    }
    found = {}
    for name, bias in biases.items():
        agreement = Agreement(x, labels, train, 7)
        found[name] = accuracy(g, lambda epoch, a=agreement, bias=bias: bias(a, epoch), agreement)
    assert found["prior"] > found["none"] + 0.1, found
    assert found["both"] > found["prior"] + 0.02, found
