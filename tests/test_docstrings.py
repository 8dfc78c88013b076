"""Docstrings say what the signature says: every parameter, in its order, with its default."""

import importlib
import inspect
import pkgutil
import re

import pytest

import dgl_ptdnet as ptd

NAMES = [name for _, name, _ in pkgutil.walk_packages(ptd.__path__, "dgl_ptdnet.")]
MODULES = [name for name in NAMES if not name.endswith(("._C", "._cuda", ".__main__"))]


def documented():
    """Public functions, classes and methods with a section of parameters, by name."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for key, thing in vars(module).items():
            if key.startswith("_") or getattr(thing, "__module__", "") != name or not callable(thing):
                continue
            methods = vars(thing).items() if inspect.isclass(thing) else ()
            methods = [(f"{key}.{of}", getattr(thing, of)) for of, value in methods if inspect.isroutine(value)]
            for called, what in [(key, thing), *methods]:
                if "\n    Parameters\n" in inspect.cleandoc(what.__doc__ or "").replace("\n", "\n    "):
                    found[f"{name}.{called}"] = what
    return found


THINGS = documented()


def parameters_in(doc):
    """Name to text of each documented parameter, in order. ``a, b : int`` documents both."""
    section = re.split(r"\n(?:\w[\w ]*)\n-+\n", inspect.cleandoc(doc).split("\nParameters\n----------\n")[1])[0]
    found = {}
    for part in re.split(r"\n(?=\S)", section):
        head, _, text = part.partition("\n")
        for name in head.partition(":")[0].split(","):
            found[name.strip().lstrip("*")] = " ".join(f"{head} {text}".split())
    return found


def wanted(default):
    """How a docstring may write a default."""
    if isinstance(default, str):
        return [f'``"{default}"``', f"``{default}``", default]
    if isinstance(default, float) and default.is_integer():
        return [repr(default), f"{default:g}"]
    return [repr(default), f"{default:g}" if isinstance(default, float) else repr(default)]


@pytest.mark.parametrize("name", THINGS)
def test_parameters_are_those_of_the_signature(name):
    thing = THINGS[name]
    signature = inspect.signature(thing).parameters
    documented = parameters_in(thing.__doc__)
    names = [key for key in signature if key not in ("self", "cls")]
    assert list(documented) == names


@pytest.mark.parametrize("name", THINGS)
def test_defaults_are_those_of_the_signature(name):
    thing = THINGS[name]
    documented = parameters_in(thing.__doc__)
    for key, parameter in inspect.signature(thing).parameters.items():
        if isinstance(parameter.default, (bool, int, float, str)) and parameter.default != "":
            text = documented[key].partition("Default: ")[2]
            assert text, f"the docstring gives no default of {key}, {parameter.default!r}"
            numbers = [value for value in wanted(parameter.default) if value in re.split(r"[ ,;]|\.(?= |$)", text)]
            assert numbers, f"the default of {key} is {parameter.default!r}; the docstring says {text!r}"
