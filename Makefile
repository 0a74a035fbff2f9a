# Every target creates its environment in .venv, and changes no file outside this folder.
#
#   make PYTHON=python3.12 …      another Python
#   make TORCH=torch …            another torch than the CPU build of the tests

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
TORCH ?= torch==2.13.0
PEER ?= megatron-energon==7.4.1
LOADERS ?= webdataset==1.0.2 mosaicml-streaming==0.13.0 litdata==0.2.76
PYTEST_WORKERS ?= 2
# Some tests kill processes, race threads and fill disks, and may fail under load: a failed test runs once more, and the
# report lists it.
PYTEST_AGAIN := --reruns 1 --reruns-delay 1 -raR
ARGS ?=

BIN := .venv/bin
PEER_BIN := .venv-peer/bin
LOADERS_BIN := .venv-loaders/bin
# -qq hides harmless warnings of pip, not errors. --no-compile skips modules that are never imported.
PIP := -m pip install -qq --no-compile --disable-pip-version-check
INSTALLED := .venv/.installed
DOCS_INSTALLED := .venv/.docs-installed
PEER_INSTALLED := .venv-peer/.installed
LOADERS_INSTALLED := .venv-loaders/.installed

# Layers with a minimum of branch coverage.
COVERED := loader/format loader/order
COVERED_PERCENT := 95
# The tests that reach it; tracing other tests would only double their time.
COVERING := tests/malformed tests/unit/av tests/unit/format tests/unit/order tests/unit/storage \
	$(addprefix tests/property/test_,dataset_index.py key_table.py permute.py tar_rename.py tar_scan.py) \
	tests/unit/stores/test_dataset_file_store.py $(addprefix tests/cli/test_,info.py lint_files.py lint_jsonl.py)

.PHONY: help setup fmt check test test-all demo bench bench-load bench-mixes bench-order bench-prepare docs dist ci clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*##/\1\t/' | awk -F'\t' '{ printf "  make %-14s%s\n", $$1, $$2 }'

setup: $(INSTALLED)  ## create .venv and install the development dependencies

fmt: $(INSTALLED)  ## format the code and fix what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: $(INSTALLED)  ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict loader energon_cli

test: $(INSTALLED)  ## the tests, with their coverage gates (ARGS='--last-failed' selects some; the gates then fail)
	$(BIN)/coverage erase
	$(BIN)/pytest -n $(PYTEST_WORKERS) $(PYTEST_AGAIN) $(addprefix --ignore=,$(COVERING)) $(ARGS)
	$(BIN)/pytest -n $(PYTEST_WORKERS) $(PYTEST_AGAIN) $(COVERING) --cov --cov-report= $(ARGS)
	@$(MAKE) coverage-gates

test-all: $(INSTALLED) $(PEER_INSTALLED)  ## the slow tests too, and those against megatron-energon in .venv-peer
	$(BIN)/coverage erase
	ENERGON_PEER_BIN=$(CURDIR)/$(PEER_BIN) $(BIN)/pytest -m "" -n $(PYTEST_WORKERS) $(PYTEST_AGAIN) $(addprefix --ignore=,$(COVERING)) $(ARGS)
	$(BIN)/pytest -m "" -n $(PYTEST_WORKERS) $(PYTEST_AGAIN) $(COVERING) --cov --cov-report= $(ARGS)
	@$(MAKE) coverage-gates

.PHONY: coverage-gates
coverage-gates:
	@$(BIN)/coverage report --show-missing
	@for layer in $(COVERED); do \
		if [ -d $$layer ]; then \
			echo "$$layer: at least $(COVERED_PERCENT) % of lines and branches"; \
			$(BIN)/coverage report --format=total --include="$$layer/*" --fail-under=$(COVERED_PERCENT) || exit 1; \
		fi; \
	done

demo: $(INSTALLED)  ## create a small dataset of photographs and run every command on it
	$(BIN)/python benchmarks/demo.py build/demo

bench: bench-prepare bench-load bench-mixes bench-order  ## all benchmarks

bench-prepare: $(INSTALLED) $(PEER_INSTALLED)  ## prepare, info and lint against megatron-energon: a table of ratios
	$(BIN)/python benchmarks/bench_prepare.py --peer-bin $(PEER_BIN) --work-folder build/bench $(ARGS)

bench-load: $(INSTALLED) $(PEER_INSTALLED) $(LOADERS_INSTALLED)  ## loading against four other libraries: a table of ratios
	$(BIN)/python benchmarks/bench_load.py --peer-bin $(PEER_BIN) --other-bin $(LOADERS_BIN) --work-folder build/bench $(ARGS)

bench-mixes: $(INSTALLED) $(PEER_INSTALLED)  ## blends, joins and look-ups by key: a table each
	$(BIN)/python benchmarks/bench_mixes.py --work-folder build/bench $(ARGS)
	$(BIN)/python benchmarks/bench_join.py --peer-bin $(PEER_BIN) --work-folder build/bench

bench-order: $(INSTALLED)  ## the order of samples: latency, throughput, memory
	$(BIN)/python benchmarks/bench_order.py

docs: $(DOCS_INSTALLED)  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: $(INSTALLED)  ## build the wheel and the source distribution, and check them
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*

ci:  ## run the steps of continuous integration
	bash .ci/run

clean:  ## remove the files that these targets wrote, except environments
	rm -rf build dist site htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find energon_cli loader tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

# torch is installed first and separately: as a dependency, its newest build would come with gigabytes of CUDA.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "needs Python 3.11 or newer: make PYTHON=…")'
	@echo "setting up .venv (a minute or two; once, and when pyproject.toml changes)"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) "$(TORCH)"
	$(BIN)/python $(PIP) --editable '.[dev]'
	@touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	$(BIN)/python $(PIP) --editable '.[docs]'
	@touch $@

$(PEER_INSTALLED):
	@echo "setting up .venv-peer with $(PEER) (a minute or two, once)"
	test -x $(PEER_BIN)/python || $(PYTHON) -m venv .venv-peer
	$(PEER_BIN)/python $(PIP) "$(TORCH)"
	$(PEER_BIN)/python $(PIP) "$(PEER)"
	@touch $@

# torchvision is removed: it has no build for a torch without CUDA, so images are decoded with Pillow.
$(LOADERS_INSTALLED):
	@echo "setting up .venv-loaders with $(LOADERS) (a few minutes, once)"
	test -x $(LOADERS_BIN)/python || $(PYTHON) -m venv .venv-loaders
	$(LOADERS_BIN)/python $(PIP) "$(TORCH)"
	$(LOADERS_BIN)/python $(PIP) "$(TORCH)" $(LOADERS) pillow
	$(LOADERS_BIN)/python -m pip uninstall -qq --yes torchvision
	@touch $@
