"""What is kept with a DGL graph is right after every change of it, and freed with it."""

import copy
import gc
import pickle
import weakref

import dgl
import pytest
import torch
from gate_inputs import FEATS, features, undirected

import dgl_ptdnet as ptd
from dgl_ptdnet import graph as graph_module
from dgl_ptdnet.graph import edges_of


@pytest.fixture(autouse=True)
def seed():
    """A test's draws do not depend on the tests before it."""
    torch.manual_seed(0)


def test_the_index_is_made_once_for_a_graph():
    g = undirected()
    index = edges_of(g).index
    assert edges_of(g).index is index
    assert edges_of(g.local_var()).index is index
    assert edges_of(g["_E"]).index is index
    with g.local_scope():
        g.ndata["x"] = torch.ones(40)
        assert edges_of(g).index is index
    hetero = dgl.heterograph({("a", "x", "b"): ([0, 1], [1, 0]), ("b", "y", "a"): ([0], [0])})
    assert edges_of(hetero["x"]).index is edges_of(hetero["x"]).index
    assert edges_of(hetero["x"]).index is not edges_of(hetero["y"]).index


def test_the_index_is_right_after_every_change_of_the_graph():
    g = undirected()
    gate, first = ptd.EdgeGate(FEATS).eval(), edges_of(g)

    def check(g):
        src, dst = g.edges(order="eid")
        index = edges_of(g).index
        assert torch.equal(index.src, src)
        assert torch.equal(index.dst, dst)
        assert (index.num_src, index.num_dst) == (g.num_src_nodes(), g.num_dst_nodes())
        assert gate(g, torch.randn(g.num_src_nodes(), FEATS)).shape == (g.num_edges(),)

    g.add_edges([0, 1], [5, 1])
    check(g)
    assert edges_of(g) is not first
    g.add_nodes(3)
    check(g)
    g.remove_edges([0, 4])
    check(g)
    g.remove_nodes([2])
    check(g)
    for other in (
        *(g.to("cpu"), g.int(), g.int().long(), copy.copy(g), copy.deepcopy(g), g.clone(), g.reverse(), g.cpu()),
        *(dgl.batch([g, undirected(seed=4)]), dgl.add_self_loop(g), dgl.node_subgraph(g, range(10)), g.formats("coo")),
        *(pickle.loads(pickle.dumps(g)), dgl.graph(([], []), num_nodes=3)),
    ):
        check(other)
    check(g)


def test_an_index_is_freed_with_its_graph():
    gc.collect()
    before = len(graph_module._by_frame)
    g = undirected()
    known = weakref.ref(edges_of(g))
    assert edges_of(g["_E"]) is known()
    assert len(graph_module._by_frame) == before + 1
    del g
    gc.collect()
    assert known() is None
    assert len(graph_module._by_frame) == before


def test_edges_in_csc_order_are_gated_by_their_ids():
    g, gate = undirected(), ptd.EdgeGate(FEATS).eval()
    for name in ("csc", "csr"):
        torch.testing.assert_close(gate(g.formats(name), features(g)), gate(g, features(g)))


@pytest.mark.parametrize("symmetric", [False, True])
def test_blocks_with_node_ids_in_their_sources_alone_draw_as_the_whole_graph(symmetric):
    g = undirected()
    gate, whole = (ptd.EdgeGate(FEATS, symmetric=symmetric) for _ in range(2))
    whole.load_state_dict(gate.state_dict())
    want = whole(g, features(g))
    block = dgl.to_block(dgl.in_subgraph(g, torch.arange(5, 25)), torch.arange(5, 25))
    block.edata[dgl.EID] = dgl.in_subgraph(g, torch.arange(5, 25)).edata[dgl.EID][block.edata[dgl.EID]]
    del block.dstdata[dgl.NID]  # as GraphBolt's blocks are
    z = gate(block, features(g)[block.srcdata[dgl.NID]])
    assert torch.equal(z, want[block.edata[dgl.EID]])


@pytest.mark.parametrize(
    "gate",
    [ptd.EdgeGate(FEATS), ptd.EdgeGate(FEATS, symmetric=True), ptd.DropEdge(0.5), ptd.NeuralSparse(FEATS, 2)],
)
def test_blocks_without_edge_ids_are_refused_in_training_alone(gate):
    block = dgl.to_block(undirected())
    del block.edata[dgl.EID]
    del block.srcdata[dgl.NID]
    h = torch.randn(block.num_src_nodes(), FEATS)
    with pytest.raises(
        ValueError, match=r"Set block.(edata\[dgl.EID\].*include_original_edge_id=True|srcdata\[dgl.NID\])"
    ):
        gate.train()(block, h)
    assert gate.eval()(block, h).shape == (block.num_edges(),)


@pytest.mark.parametrize("gate", [ptd.EdgeGate(FEATS), ptd.DropEdge(0.5), ptd.NeuralSparse(FEATS, 2)])
def test_what_is_no_graph_and_what_are_no_features_is_named(gate):
    g = undirected()
    for wrong in (None, [1, 2], "g", torch.ones(2)):
        with pytest.raises(TypeError, match=f"g must be a DGLGraph or a block; got {type(wrong).__name__}"):
            gate(wrong, features(g))
    for wrong in (None, [1.0], "h", torch.tensor(1.0)):
        with pytest.raises(TypeError, match=r"features must be a tensor \[N, F\] or a pair of tensors; got"):
            gate(g, wrong)
    with pytest.raises(ValueError, match=r"a pair of features has two parts.*got 3"):
        gate(g, (features(g),) * 3)
