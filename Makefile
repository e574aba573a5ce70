# make run   create .venv, install, open the workbench (no terminal: the non-interactive tour)
# make test  install the test extras and run the suite

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml setup.py $(wildcard orkbench_tui/native/*.py orkbench_tui/native/src/*.c orkbench_tui/native/src/*.h orkbench_tui/native/src/api/*.h orkbench_tui/sim/preload/*.c)

.PHONY: run test lint bench bench-peers fuzz soak clean inventory snapshots

run: $(VENV)/.installed
	@if [ -t 0 ] && [ -t 1 ]; then $(BIN)/ork-tui; else $(BIN)/ork demo; fi

# Two at a time, as most machines that build have two cores; 0 is one after the other in this process.
WORKERS ?= 2

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS)

.PHONY: soak-packs
soak-packs: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m soak

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-test
	$(BIN)/python -m tests.bench

# In turns with peers; ORK_BENCH_LLAMA_PYTHON names an interpreter that has llama-cpp-python. numpy's own threads
# spin against each other where processors are shared, so it gets one unless told.
bench-peers: $(VENV)/.installed-test
	OPENBLAS_NUM_THREADS=$${OPENBLAS_NUM_THREADS:-1} $(BIN)/python -m tests.bench peers

CASES ?= 100000
SECONDS ?= 300
SEED ?= 0

fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tests.sim.robustness fuzz --cases $(CASES) --seed $(SEED)

soak: $(VENV)/.installed-test
	$(BIN)/python -m tests.sim.robustness soak --seconds $(SECONDS) --seed $(SEED)

inventory: $(VENV)/.installed-test
	$(BIN)/python -m tests.inventory

snapshots: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/screens --snapshot-update

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "Python has no venv support here: sudo apt install python3-venv"; exit 2; }
	@$(PYTHON) -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { echo "Python headers are needed to build the native kernels: sudo apt install python3-dev"; exit 2; }
	@command -v $${CC:-cc} >/dev/null || { echo "a C compiler is needed to build the native kernels: sudo apt install gcc libc6-dev"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info orkbench_tui/native/_kernels.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
