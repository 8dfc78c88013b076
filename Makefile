# make demo, make test: from a fresh clone, with Python 3.11, make and g++. What they need goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
export DGLBACKEND := pytorch

.PHONY: build demo test lint bench mutants cuda-build clean

build: .venv/.built

.venv/.installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "make needs Python 3.11, found %d.%d: make PYTHON=python3.11" % sys.version_info[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

.venv/.built: .venv/.installed setup.py pyproject.toml $(wildcard csrc/*.* csrc/*/*.*)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

demo: build
	$(BIN)/python examples/demo.py

test: build lint  # threads that wait must not spin: the machine may be busy with other work
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')

bench: build  # DATA_DIR=...: a folder with Cora, Pubmed and PPI in DGL's raw layout, else DGL downloads them
	$(BIN)/python benchmarks/edge_gate.py
	$(BIN)/python benchmarks/aggregate.py
	$(BIN)/python benchmarks/layers.py $(if $(DATA_DIR),--data-dir $(DATA_DIR))
	$(BIN)/python benchmarks/low_rank.py $(if $(DATA_DIR),--data-dir $(DATA_DIR))
	$(BIN)/python benchmarks/epoch.py $(if $(DATA_DIR),--data-dir $(DATA_DIR))
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/prior.py

mutants: build  # ROOMS="gate conv": of some rooms; SAMPLE=200: a random part
	$(BIN)/python tests/mutants.py $(ROOMS) $(if $(SAMPLE),--sample $(SAMPLE))

clean:
	rm -rf .venv .venv-cuda build *.egg-info dgl_ptdnet/*.so

# Builds, links and imports the extension with its CUDA kernels; needs nvcc, no GPU. Downloads some gigabytes.
CUDA_TORCH ?= 2.14.1
cuda-build: export TORCH_CUDA_ARCH_LIST ?= 7.5;8.0;8.6;9.0;10.0;12.0
cuda-build:
	test -x .venv-cuda/bin/python || $(PYTHON) -m venv .venv-cuda
	.venv-cuda/bin/pip install --quiet --disable-pip-version-check torch==$(CUDA_TORCH) numpy ninja setuptools wheel
	FORCE_CUDA=1 .venv-cuda/bin/python setup.py --quiet build --build-base build/cuda
	cd build/cuda/lib* && ../../../.venv-cuda/bin/python -c 'import torch, dgl_ptdnet as ptd; \
	  print(ptd.build_info()); \
	  has = torch._C._dispatch_has_kernel_for_dispatch_key; \
	  ops = sorted(op for op in torch._C._dispatch_get_all_op_names() if op.startswith("dgl_ptdnet::")); \
	  keys = ("CUDA", "CompositeExplicitAutograd"); \
	  print({op: [key for key in ("CPU", *keys) if has(op, key)] for op in ops}); \
	  assert ops and all(any(has(op, key) for key in keys) for op in ops)'
