"""The denoiser: what the prior and agreement say of one graph, epoch by epoch; its state; wrong input."""

import copy
import pickle

import dgl
import pytest
import torch

import dgl_ptdnet as ptd
from dgl_ptdnet.gate import PriorGate


@pytest.fixture(scope="module")
def data():
    torch.manual_seed(0)
    g = dgl.rand_graph(120, 700)
    labels = torch.arange(120) % 3
    x = torch.eye(3)[labels].repeat(1, 2) + 0.5 * torch.randn(120, 6)
    return g, x, labels, torch.arange(120) < 30


def learn(denoiser, epochs):
    """The bias of every epoch, of a training loop as a user writes it, without a model."""
    optimizer = torch.optim.Adam(denoiser.parameters(), lr=0.01, weight_decay=1e-4)
    found = []
    for _ in range(epochs):
        found.append(denoiser.bias)
        loss = denoiser.loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        denoiser.step(torch.rand(120, 3, generator=torch.Generator().manual_seed(denoiser.epoch)).softmax(1))
    return found


def test_without_labels_it_is_the_density_prior(data):
    g, x, _, _ = data
    denoiser, prior = ptd.Denoiser(g, x, seed=3), ptd.density_prior(g, x, seed=3)
    assert torch.equal(denoiser.real, prior.real)
    assert (denoiser.noise_share, denoiser.interval) == (prior.noise_share, prior.interval)
    assert torch.equal(denoiser(g), prior.logit)
    assert not list(denoiser.parameters())
    assert float(denoiser.loss()) == 0
    denoiser.step()
    assert torch.equal(denoiser(g), prior.logit)
    assert not torch.equal(denoiser.real, ptd.Denoiser(g, x, seed=4).real)


def test_with_labels_it_is_agreement_epoch_by_epoch(data):
    g, x, labels, train = data
    options = {"warmup": 2, "ramp": 4, "dropout": 0.0, "homophily": 0.7}
    torch.manual_seed(1)
    denoiser = ptd.Denoiser(g, x, labels, train, **options)
    torch.manual_seed(1)
    agreement = ptd.Agreement(x, labels, train, 3, **options)
    optimizer = torch.optim.Adam(agreement.parameters(), lr=0.01, weight_decay=1e-4)
    for epoch, bias in enumerate(learn(denoiser, 8)):
        assert torch.equal(bias, agreement.edge_bias(g, denoiser.prior, epoch))
        loss = agreement.loss(epoch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        agreement.observe(torch.rand(120, 3, generator=torch.Generator().manual_seed(epoch)).softmax(1))
    assert denoiser.epoch == 8
    assert not torch.equal(denoiser(g), denoiser.prior.logit)


def test_a_run_that_is_resumed_has_the_same_bits(data):
    g, x, labels, train = data
    options = {"warmup": 2, "ramp": 4, "dropout": 0.0}
    one, other = (ptd.Denoiser(g, x, labels, train, **options) for _ in range(2))
    learn(one, 4)
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    assert other.epoch == 4
    assert torch.equal(one(g), other(g))
    assert not torch.equal(other(g), other.prior.logit)
    again = pickle.loads(pickle.dumps(one))
    assert torch.equal(again.real, one.real)
    holder = torch.nn.ModuleList([ptd.Denoiser(g, x, labels, train, **options)])
    holder.load_state_dict({f"0.{name}": value for name, value in one.state_dict().items()})
    assert torch.equal(holder[0](g), one(g))  # also as a part of another module


def test_a_sampled_block_gets_the_numbers_of_its_edges(data):
    g, x, _, _ = data
    denoiser = ptd.Denoiser(g, x)
    chosen = torch.tensor([5, 3, 600])
    part = dgl.edge_subgraph(g, chosen)
    assert torch.equal(denoiser(part), denoiser.bias[chosen])
    _, _, (block,) = dgl.dataloading.NeighborSampler([4]).sample(g, torch.arange(10))
    assert torch.equal(denoiser(block), denoiser.bias[block.edata[dgl.EID]])
    gate = PriorGate(6, denoiser).eval()
    assert torch.allclose(gate(g, x), (torch.sigmoid(denoiser.bias) * 1.2 - 0.1).clamp(0, 1), atol=1e-6)
    assert not any(name.startswith("_source") for name, _ in gate.named_buffers())


def test_copies_indices_and_subgraphs_of_all_edges_are_the_same_graph(data):
    g, x, _, _ = data
    index = ptd.EdgeIndex(*g.edges(), 120, 120)
    for denoiser in (ptd.Denoiser(g, x), ptd.Denoiser(index, x)):
        for same in (g, index, g.clone(), dgl.graph(g.edges(), num_nodes=120)):
            assert torch.equal(denoiser(same), denoiser.bias)
    shuffled = torch.randperm(700)
    part = dgl.edge_subgraph(g, shuffled, relabel_nodes=False)
    assert torch.equal(ptd.Denoiser(g, x)(part), ptd.Denoiser(g, x).bias[shuffled])
    own = ptd.Denoiser(part, x)  # its own graph has dgl.EID, but is not a sample of itself
    assert torch.equal(own(part), own.bias)


def test_wrong_input_raises_an_error_that_names_the_argument_and_the_remedy(data):
    g, x, labels, train = data
    bad = x.clone()
    bad[4, 0] = float("nan")
    cases = [
        (ValueError, "not finite.*nan_to_num", (g, bad)),
        (ValueError, r"x must be \[N, F\] with N = 120", (g, x[:-1])),
        (ValueError, "train_mask is missing", (g, x, labels)),
        (ValueError, "labels is missing", (g, x, None, train)),
        (ValueError, r"train_mask must be bool \[N\] = \(120,\)", (g, x, labels, train[:-1])),
        (ValueError, "labels must be int64", (g, x, labels.float(), train)),
        (ValueError, "labels of training nodes must be in 0", (g, x, labels - 1, train)),
        (ValueError, "train_mask marks no node", (g, x, labels, train & False)),
    ]
    for kind, message, arguments in cases:
        with pytest.raises(kind, match=message):
            ptd.Denoiser(*arguments)
    with pytest.raises(ValueError, match=r"in 0 \.\. 1"):
        ptd.Denoiser(g, x, labels, train, num_classes=2)
    with pytest.raises(TypeError, match=r"homophily.*needs labels"):
        ptd.Denoiser(g, x, homophily=0.7)

    denoiser = ptd.Denoiser(g, x, labels, train)
    with pytest.raises(ValueError, match="probabilities is missing"):
        denoiser.step()
    with pytest.raises(ValueError, match=r"probabilities must be \[N, C\]"):
        denoiser.step(torch.rand(5, 3))
    with pytest.raises(ValueError, match=r"another graph: it has 120 nodes and 699 edges.*700 edges.*each graph"):
        denoiser(dgl.remove_edges(g, [0], store_ids=False))
    with pytest.raises(ValueError, match="which are others"):
        denoiser(dgl.reverse(g))
    foreign = dgl.edge_subgraph(dgl.rand_graph(120, 900), torch.tensor([800]))
    with pytest.raises(ValueError, match=r"goes up to 800, but the denoiser's graph has 700 edges"):
        denoiser(foreign)
