"""The code keeps what docs/architecture.md says: the order of imports, DGL's private attributes."""

import ast
import re
from pathlib import Path

import dgl
import pytest
from dgl.udf import EdgeBatch

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dgl_ptdnet"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def names_in(text):
    return re.findall(r"`([^`]+)`", text)


def rows_of(title):
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    return [line.strip("|").split("|") for line in section.splitlines() if re.match(r"\| (`|\d)", line)]


LEVELS = {names_in(row[1])[0]: int(row[0]) for row in rows_of("The order of imports")}


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def only_for_types(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def statements(node):
    for child in ast.iter_child_nodes(node):
        if not only_for_types(child):
            yield child
            yield from statements(child)


def imported(path):
    """The modules of the package that a file imports, also inside of functions: their parts below dgl_ptdnet."""
    here = path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1]
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1] + tuple((node.module or "").split(".") if node.module else ())
            for name in node.names:
                full = (*base, name.name)
                is_module = (PACKAGE.parent.joinpath(*full)).is_dir() or PACKAGE.parent.joinpath(
                    *full[:-1], f"{full[-1]}.py"
                ).exists()
                yield (full if is_module else base)[1:]
        elif isinstance(node, ast.Import):
            assert not any(name.name.startswith("dgl_ptdnet") for name in node.names), f"{path}: use relative imports"


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or not path.name.startswith("__"))


def test_every_module_has_its_place():
    assert {room_of(path) for path in FILES} == set(LEVELS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_come_from_earlier_rooms(path):
    room = room_of(path)
    for parts in imported(path):
        other = parts[0] if parts else ""
        if other not in ("", "_C", room):
            assert LEVELS[other] < LEVELS[room], f"{path} imports {'.'.join(parts)}"


def test_no_import_goes_in_a_circle():
    needs = {}
    for path in FILES:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        here = parts[:-1] if parts[-1] == "__init__" else parts
        needs[here] = {other for other in imported(path) if other and other != here}

    def visit(module, above):
        assert module not in above, " -> ".join(".".join(x) for x in (*above, module))
        for other in needs.get(module, ()):
            if module[: len(other)] != other:  # a package's own __init__ is loaded first anyway
                visit(other, (*above, module))

    for module in needs:
        visit(module, ())


def test_operators_never_import_dgl():
    for path in (PACKAGE / "ops").glob("*.py"):
        assert not re.search(r"\b_dgl\b|import dgl\b", path.read_text()), path


def dgl_objects():
    g = dgl.graph(([0, 1], [1, 0]))
    g.ndata["x"] = g.nodes()
    batches = []
    g.apply_edges(lambda batch: batches.append(batch) or {"e": batch.edges()[0]})
    assert isinstance(batches[0], EdgeBatch)
    return {
        "DGLGraph": g,
        "EdgeBatch": batches[0],
        "GraphConv": dgl.nn.GraphConv(2, 3),
        "SAGEConv": dgl.nn.SAGEConv(2, 3, "lstm"),
        "GATConv": dgl.nn.GATConv(2, 3, 2),
        "GATv2Conv": dgl.nn.GATv2Conv(2, 3, 2),
        "GINConv": dgl.nn.GINConv(None, "sum"),
    }


def test_dgl_has_the_private_attributes_that_are_used():
    objects = dgl_objects()
    rows = rows_of("DGL's private attributes")
    assert [names_in(row[0])[0] for row in rows] == list(objects)
    for row in rows:
        (name,) = names_in(row[0])
        for attribute in names_in(row[1]):
            assert hasattr(objects[name], attribute), f"{name} has no {attribute}"
    assert isinstance(objects["DGLGraph"]._graph._cache, dict)


def test_no_other_private_attribute_of_dgl_is_used():
    listed = {name for row in rows_of("DGL's private attributes") for name in names_in(row[1])}
    for room in (
        "graph.py",
        "gate.py",
        "pruning.py",
        *(f"conv/{path.name}" for path in (PACKAGE / "conv").glob("*.py")),
    ):
        text = (PACKAGE / room).read_text()
        own = {*re.findall(r"(?:self|layer|gate|matrix)\.(_[a-z]\w*)", text), "_modules"}
        used = {*re.findall(r"\.(_[a-z]\w*)", text), *re.findall(r'"(_[a-z]\w*feats)"', text)}
        hooks = {
            "_cache",
            "_version",
            *(name for name in used if "hooks" in name),
            "_in_src_node_feats",
            "_in_dst_node_feats",
        }
        assert used - own - hooks - {"_dgl"} <= listed, room
