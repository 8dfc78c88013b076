"""Plants one small fault at a time in the Python sources, and runs the tests that execute the faulty line.

python tests/mutants.py                         every mutant of every room: hours; goes on where it was stopped
python tests/mutants.py gate conv               of some rooms
python tests/mutants.py --sample 200 --seed 1   a random part of them
python tests/mutants.py --list                  those that survived so far, as entries for tests/mutants.toml
python tests/mutants.py --record 40             choose mutants for tests/mutants_sample.json, each with its killer
python tests/mutants.py --check                 whether each of these is still killed, by that test: make test does this

A mutant that no test notices survives. Either a new test kills it, or tests/mutants.toml names it as equivalent, with
the reason: no input can tell it from the original. Results are kept in out/mutants, by the fingerprint of all sources
and tests of a room.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import hashlib
import importlib.abc
import importlib.util
import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("gate", "mlp", "regularizers", "graph", "conv", "low_rank", "sparse", "pruning", "baselines", "prior",
         "agreement", "train", "data")  # fmt: skip
LEFT_OUT = ("ops", "cuda", "cpp", "emulation", "studies", "test_docs.py", "test_mutants.py", "test_architecture.py",
            "test_aggregate.py", "test_attention.py", "test_edge_gate.py", "test_linear.py", "test_cpp.py",
            "test_cuda_compile.py", "test_cuda_emulated.py", "test_cuda_message.py", "test_studies.py")  # fmt: skip
FOLDER = ROOT / "out" / "mutants"
LOG = FOLDER / "results.jsonl"
SAMPLE = ROOT / "tests" / "mutants_sample.json"
SKIPPED = ("__repr__", "extra_repr", "__dir__")
BUDGET = 15.0  # seconds of tests for a mutant
PATIENCE = 20.0  # seconds that a mutant gets beside three times what its tests take


# The faults.

_COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATE = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


def faults_of(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Changes of a node in place, each one fault."""
    if isinstance(node, ast.Compare):
        for k, operator in enumerate(node.ops):
            yield lambda k=k, op=operator: node.ops.__setitem__(k, _COMPARE[type(op)]())  # type: ignore[misc]
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and not any(_is_text(child) for child in _operands(node)):
        yield lambda: setattr(node, "op", _OPERATE[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield lambda: setattr(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield lambda: setattr(node, "op", ast.UAdd())
    elif isinstance(node, (ast.IfExp, ast.If, ast.While)) and not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
        yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Call):
        for k, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                yield lambda k=k: node.keywords.pop(k) and None
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield lambda: setattr(node, "value", not node.value)
        elif isinstance(node.value, int):
            yield lambda: setattr(node, "value", node.value + 1)
        elif isinstance(node.value, float):
            yield lambda: setattr(node, "value", node.value * 1.5 + 0.1)


def _operands(node: ast.BinOp | ast.AugAssign) -> list[ast.expr]:
    return [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _nodes(tree: ast.AST, where: str = "") -> Iterator[tuple[str, ast.AST, ast.stmt | None]]:
    """The nodes that may be faulty, each with its function and statement: no types, messages or descriptions."""

    def walk(node: ast.AST, where: str, statement: Any) -> Iterator[tuple[str, ast.AST, Any]]:
        if isinstance(node, ast.Raise) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if node.name in SKIPPED:
                return
            where = f"{where}.{node.name}".lstrip(".")
        if isinstance(node, ast.stmt):
            statement = node
        yield where, node, statement
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "bases", "type_comment"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, (ast.JoinedStr, ast.Assert)):
                    yield from walk(child, where, statement)

    return walk(tree, where, None)


def _defaults(statement: ast.stmt) -> dict[int, str]:
    """The arguments of a function by the places of their defaults."""
    if not isinstance(statement, ast.FunctionDef):
        return {}
    arguments = statement.args
    plain = list(zip(reversed([*arguments.posonlyargs, *arguments.args]), reversed(arguments.defaults)))
    pairs = [*plain, *zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return {id(default): f"the default of {argument.arg}" for argument, default in pairs if default is not None}


@dataclass(frozen=True)
class Mutant:
    """One fault: the module, the number among its faults, and what is changed."""

    module: str
    number: int
    line: int
    key: str  # what tests/mutants.toml calls it


def path_of(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def mutate(module: str, number: int | None = None) -> tuple[ast.Module, list[Mutant]]:
    """The tree of a module with fault ``number`` in it, and all its mutants."""
    tree = ast.parse(path_of(module).read_text())
    found: list[Mutant] = []
    seen: dict[str, int] = defaultdict(int)
    for where, node, statement in list(_nodes(tree)):
        for fault in list(faults_of(node)):
            if number is not None and number != len(found):
                found.append(Mutant(module, len(found), 0, ""))
                continue
            before, state = ast.unparse(node), copy.deepcopy(node.__dict__)
            fault()
            after = ast.unparse(ast.fix_missing_locations(node))
            if number is not None:
                return tree, found
            node.__dict__.clear()
            node.__dict__.update(state)
            first = lambda text: text.splitlines()[0]  # noqa: E731
            key = f"{module}:{where}: {first(before)} -> {first(after)}"
            if isinstance(node, ast.Constant) and statement is not None:
                key += f" in {_defaults(statement).get(id(node)) or first(ast.unparse(statement))[:90]}"
            seen[key] += 1
            key += f" #{seen[key]}" if seen[key] > 1 else ""
            found.append(Mutant(module, len(found), getattr(node, "lineno", 0), key))
    return tree, [mutant for mutant in found if mutant.line]


class _Faulty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with a fault in it."""

    def __init__(self, module: str, number: int) -> None:
        self.module, self.number = module, number

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.module:
            return None
        file = path_of(name)
        inside = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, loader=self, submodule_search_locations=inside)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        tree, _ = mutate(self.module, self.number)
        exec(compile(ast.fix_missing_locations(tree), str(path_of(self.module)), "exec"), module.__dict__)


# Running.


def modules_of(room: str) -> list[str]:
    base = ROOT / "dgl_ptdnet"
    files = sorted((base / room).rglob("*.py")) if (base / room).is_dir() else [base / f"{room}.py"]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files if file.name != "__init__.py"]
    return names


def load_libraries() -> None:
    """Loads what every child needs, once. Not the package itself: each child has its own faulty one."""
    os.environ.update(DGLBACKEND="pytorch", OMP_NUM_THREADS="1", CI="true")  # CI: hypothesis draws the same each time
    sys.path.insert(0, str(ROOT))
    import dgl  # noqa: F401
    import pytest  # noqa: F401
    import scipy.sparse  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import torch

    torch.set_num_threads(1)


def run_tests(tests: list[str], plugins: list[Any] | None = None) -> int:
    import pytest

    os.chdir(ROOT)
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests], plugins=plugins or []))


def in_child(work: Callable[[], int], log: str = os.devnull) -> int:
    """Starts a process for some work, which writes to a log; returns its number."""
    number = os.fork()
    if number:
        return number
    code = 3
    try:
        os.setsid()
        streams = (os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666))
        for stream in (0, 1, 2):
            os.dup2(streams[min(stream, 1)], stream)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


class _Killer:
    """A pytest plugin that writes down the test that failed."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.file.write_text(report.nodeid)


class _WhoRunsWhat:
    """A pytest plugin that records which lines of the package each test executes, and how long it takes."""

    def __init__(self, measured: Any) -> None:
        self.measured, self.seconds = measured, {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.measured.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def measure_coverage() -> dict[str, Any]:
    """``seconds`` of each test, and for each file and line the tests that execute it; kept until something changes."""
    tests = [path for path in sorted((ROOT / "tests").iterdir())
             if path.name not in LEFT_OUT and (path.is_dir() or path.name.startswith("test_"))]  # fmt: skip
    tests = [path for path in tests if path.is_file() or any(path.rglob("test_*.py"))]
    file = FOLDER / f"coverage-{fingerprint()}.json"
    if not file.exists():
        report = FOLDER / "coverage.tmp"

        def work() -> int:
            import coverage

            measured = coverage.Coverage(data_file=None, include=[str(ROOT / "dgl_ptdnet" / "*")])
            measured.start()
            plugin = _WhoRunsWhat(measured)
            code = run_tests([str(path) for path in tests], [plugin])
            measured.stop()
            data = measured.get_data()
            lines = {path: data.contexts_by_lineno(path) for path in data.measured_files()}
            report.write_text(json.dumps({"seconds": plugin.seconds, "lines": lines}))
            return code

        print("running every test once, to see which lines it executes", flush=True)
        log = FOLDER / "coverage.log"
        if os.waitstatus_to_exitcode(os.waitpid(in_child(work, str(log)), 0)[1]) or not report.exists():
            raise SystemExit(f"the tests fail without any fault, see {log}: mend them first")
        os.replace(report, file)
    return json.loads(file.read_text())


def fingerprint() -> str:
    known = hashlib.blake2b(digest_size=8)
    for path in sorted([*(ROOT / "dgl_ptdnet").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        if path.name not in ("mutants.py", "test_mutants.py"):
            known.update(path.read_bytes())
    return known.hexdigest()


def tests_for(mutant: Mutant, coverage: dict[str, Any]) -> list[str]:
    """The tests that execute a mutant's line: first those of its module, then others, the quickest first, as many as
    the budget allows. For what runs at import alone those that execute anything of the file, and of docstrings."""
    path = path_of(mutant.module)
    lines = coverage["lines"].get(str(path), {})
    found = [test for test in lines.get(str(mutant.line), []) if test]
    if not found:
        found = sorted({test for tests in lines.values() for test in tests if test})
        found += [test for test in coverage["seconds"] if test.startswith("tests/test_docstrings.py")]
    own = f"tests/{path.relative_to(ROOT / 'dgl_ptdnet').parent / 'test_'}{path.stem}.py".replace("/./", "/")
    seconds = coverage["seconds"]
    found.sort(key=lambda test: (not test.startswith((own, "tests/test_docstrings.py")), seconds.get(test, 0.0)))
    spent = itertools.accumulate(seconds.get(test, 0.0) for test in found)
    return [test for test, total in zip(found, spent) if total <= BUDGET or test is found[0]]


def run(work: list[tuple[Mutant, list[str], float]], jobs: int, told: Callable[[Mutant, str, str], None]) -> None:
    """Runs each mutant's tests for at most so many seconds. Tells of it: killed and by which test, timeout, survived,
    or untested where it has no tests."""
    waiting, running = list(reversed(work)), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant, tests, limit = waiting.pop()
            if not tests:
                told(mutant, "untested", "")
                continue
            killer = FOLDER / f"killer-{len(waiting)}"

            def child(mutant: Mutant = mutant, tests: list[str] = tests, killer: Path = killer) -> int:
                sys.meta_path.insert(0, _Faulty(mutant.module, mutant.number))
                return run_tests(tests, [_Killer(killer)])

            running[in_child(child)] = (mutant, time.monotonic() + limit, killer)
        for number, (mutant, end, killer) in list(running.items()):
            done, status = os.waitpid(number, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                told(mutant, "survived" if code == 0 else "killed", killer.read_text() if killer.exists() else "")
                killer.unlink(missing_ok=True)
            elif time.monotonic() > end:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(number, signal.SIGKILL)
                os.waitpid(number, 0)
                told(mutant, "timeout", "")
            else:
                continue
            del running[number]
        time.sleep(0.02)


def explained() -> dict[str, str]:
    """Key to reason, of the mutants that are equivalent."""
    try:
        import tomllib
    except ImportError:  # Python < 3.11
        import tomli as tomllib
    file = ROOT / "tests" / "mutants.toml"
    tables = tomllib.loads(file.read_text()) if file.exists() else {}
    return {key: reason for group in tables.get("equivalent", []) for key in group["mutants"]
            for reason in [group["reason"]]}  # fmt: skip


def all_mutants(rooms: list[str]) -> list[Mutant]:
    return [mutant for room in rooms for module in modules_of(room) for mutant in mutate(module)[1]]


def record(number: int, seed: int) -> int:
    """Chooses killed mutants, with the tests that killed them."""
    mutants = {mutant.key for mutant in all_mutants(list(ROOMS))}
    killed = {}
    for line in LOG.read_text().splitlines():
        entry = json.loads(line)
        if entry["outcome"] == "killed" and entry["killer"] and entry["key"] in mutants:
            killed[entry["key"]] = entry["killer"]
    chosen = random.Random(seed).sample(sorted(killed.items()), min(number, len(killed)))
    SAMPLE.write_text(json.dumps(dict(sorted(chosen)), indent=1) + "\n")
    print(f"{len(chosen)} of {len(killed)} killed mutants, see {SAMPLE}")
    return 0


def check(jobs: int) -> int:
    """Whether the mutants of the sample are still killed, each by its test."""
    load_libraries()
    killers = json.loads(SAMPLE.read_text())
    mutants = [mutant for mutant in all_mutants(list(ROOMS)) if mutant.key in killers]
    survivors = []

    def told(mutant: Mutant, outcome: str, killer: str) -> None:
        if outcome == "survived":
            survivors.append(f"{mutant.key}: {killers[mutant.key]} passes")

    run([(mutant, [killers[mutant.key]], 6 * PATIENCE) for mutant in mutants], jobs, told)
    print(*survivors, f"{len(mutants)} of {len(killers)} mutants of the sample are left, {len(survivors)} survived",
          sep="\n")  # fmt: skip
    if len(mutants) < 0.7 * len(killers):
        print("The sources have changed too much for the sample: choose another with tests/mutants.py --record 40")
        return 1
    return int(bool(survivors))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"default: {' '.join(ROOMS)}")
    parser.add_argument("--sample", type=int, default=0, help="how many, drawn at random; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw; default: 0")
    parser.add_argument("--jobs", type=int, default=2, help="processes; default: 2")
    parser.add_argument("--list", action="store_true", help="run nothing, list the survivors that are not explained")
    parser.add_argument("--record", type=int, metavar="N", help="choose N killed mutants for the sample of make test")
    parser.add_argument("--check", action="store_true", help="run that sample alone")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if arguments.check:
        return check(arguments.jobs)
    if arguments.record:
        return record(arguments.record, arguments.seed)
    unknown = set(arguments.rooms) - set(ROOMS)
    if unknown:
        parser.error(f"there is no room {', '.join(sorted(unknown))}; there are: {', '.join(ROOMS)}")
    mutants = all_mutants(arguments.rooms or list(ROOMS))
    if arguments.sample:
        mutants = random.Random(arguments.seed).sample(mutants, min(arguments.sample, len(mutants)))
    known = {}
    for line in LOG.read_text().splitlines() if LOG.exists() else []:
        entry = json.loads(line)
        known[entry["key"], entry["source"]] = entry["outcome"]
    source = {module: hashlib.blake2b(path_of(module).read_bytes(), digest_size=8).hexdigest()
              for module in {mutant.module for mutant in mutants}}  # fmt: skip

    def outcome_of(mutant: Mutant) -> str | None:
        """A mutant that was killed stays killed; one that survived is tried again when tests may have changed."""
        return known.get((mutant.key, source[mutant.module]))

    reasons = explained()
    if not arguments.list:
        load_libraries()
        coverage = measure_coverage()
        missing = [m for m in mutants if outcome_of(m) not in ("killed", "timeout") and m.key not in reasons]
        print(f"{len(mutants)} mutants, {len(missing)} to try", flush=True)
        begin, done = time.monotonic(), 0

        def told(mutant: Mutant, outcome: str, killer: str) -> None:
            nonlocal done
            done += 1
            known[mutant.key, source[mutant.module]] = outcome
            entry = {"key": mutant.key, "source": source[mutant.module], "outcome": outcome, "killer": killer}
            with open(LOG, "a") as file:
                file.write(json.dumps(entry) + "\n")
            if outcome not in ("killed", "timeout"):
                print(f"{outcome}: {mutant.key} (line {mutant.line})", flush=True)
            if done % 50 == 0:
                left = (time.monotonic() - begin) / done * (len(missing) - done)
                print(f"{done} of {len(missing)}, about {left / 60:.0f} minutes left", flush=True)

        work = []
        for mutant in missing:
            tests = tests_for(mutant, coverage)
            work.append((mutant, tests, PATIENCE + 3 * sum(coverage["seconds"].get(test, 0.0) for test in tests)))
        run(work, arguments.jobs, told)
    of = {mutant.key: outcome_of(mutant) for mutant in mutants}
    counts = {name: sum(outcome == name for outcome in of.values()) for name in ("killed", "timeout")}
    equivalent = sum(key in reasons for key in of)
    left = [key for key, outcome in of.items() if outcome in ("survived", "untested") and key not in reasons]
    print(f"{len(of)} mutants: {counts['killed']} killed, {counts['timeout']} ended by time, {equivalent} explained, "
          f"{len(left)} unexplained")  # fmt: skip
    for key in left:
        print(f"  {key!r},")
    return int(len(left) > 0.05 * max(1, len(of)))


if __name__ == "__main__":
    sys.exit(main())
