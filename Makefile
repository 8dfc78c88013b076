# make demo, make test: from a fresh clone, with Python 3.11, make and g++. What they need goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
export DGLBACKEND := pytorch

.PHONY: build demo test lint bench clean

build: .venv/.built

.venv/.installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 9) and "Python 3.9 or newer is needed: make PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

.venv/.built: .venv/.installed setup.py pyproject.toml $(wildcard csrc/*.* csrc/*/*.*)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

demo: build
	$(BIN)/python examples/demo.py

test: build lint
	$(BIN)/python -m pytest

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')

bench: build
	$(BIN)/python benchmarks/edge_gate.py

clean:
	rm -rf .venv build *.egg-info dgl_ptdnet/*.so
