# The only entry points; .ci/run calls nothing else. Each target works alone on a fresh clone: what it needs is put into .cache/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

ROOT := $(CURDIR)
CACHE := $(ROOT)/.cache
VENV := $(CACHE)/venv
VENV_STAMP := $(VENV)/.installed
PYTHON ?= python3
CARGO ?= cargo
# A real S3 server for the tests.
S3S_FS_VERSION := 0.14.1
S3S_FS := $(CACHE)/cargo/bin/s3s-fs
S3S_FS_STAMP := $(CACHE)/cargo/.s3s-fs-$(S3S_FS_VERSION)
TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(ROOT)/target)

FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600
DEMO_CELLS ?= 20000
BENCH_CELLS ?= 20000

export PATH := $(CACHE)/cargo/bin:$(PATH)
export CARGO_TERM_COLOR ?= auto

# Where tests find the package and its extension module, as they are in this folder.
EXTENSION := $(ROOT)/python/celltile/_native.abi3.so
WHEELS := $(CACHE)/wheels

.PHONY: help demo test test-rust test-python test-torch bench bench-loaders fuzz soak interop lint docs build python extension wheel wheel-test gallery

help:
	@echo 'make demo      simulate 20,000 cells, convert, verify, inspect, export, compare'
	@echo 'make test      every test, doctests and those of the Python package included'
	@echo 'make test-torch  the tests of the loader under PyTorch, Lightning and scvi-tools'
	@echo 'make lint      formatting, clippy, rustdoc, Python lint, paths'
	@echo 'make bench     decoding speed beside libzstd alone, and the table of presets'
	@echo 'make bench-loaders  minibatches beside annbatch, scDataset, cellstream and AnnData'
	@echo 'make fuzz      every fuzz target for FUZZ_SECONDS (60)'
	@echo 'make soak      random kills of conversions for SOAK_SECONDS (600)'
	@echo 'make interop   what other readers make of what we write'
	@echo 'make docs      API documentation'
	@echo 'make wheel     the Python package as a wheel, into .cache/wheels'
	@echo 'make wheel-test  the wheel in a fresh environment, and in one of CELLTILE_INTEROP_PYTHON'

# A virtual environment with pinned packages: readers to test against, and the linter.
$(VENV_STAMP): python/requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Python 3.11 or newer is needed (set PYTHON=...)' >&2; exit 1; }
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV) \
	  || { echo "Python's venv module is needed (Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r python/requirements-dev.txt
	touch $@

# Hardly optimised: it builds in half the time, and the tests' objects are small.
$(S3S_FS_STAMP):
	CARGO_PROFILE_RELEASE_OPT_LEVEL=1 $(CARGO) install --locked --force --root $(CACHE)/cargo \
	  --features binary s3s-fs@$(S3S_FS_VERSION)
	touch $@

python: $(VENV_STAMP)

build: $(VENV_STAMP)
	$(CARGO) build --release --locked -p celltile-cli

demo: build
	$(VENV)/bin/python scripts/demo.py --celltile $(TARGET_DIR)/release/celltile --cells $(DEMO_CELLS)

test: test-rust test-python

# Nextest runs each test in a process of its own, but no doctests.
test-rust: export CELLTILE_TEST_PYTHON := $(VENV)/bin/python
test-rust: export CELLTILE_TEST_S3S_FS := $(S3S_FS)
test-rust: $(VENV_STAMP) $(S3S_FS_STAMP)
	if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  $(CARGO) nextest run --workspace --locked --no-fail-fast; \
	  $(CARGO) test --workspace --locked --doc; \
	else \
	  $(CARGO) test --workspace --locked --no-fail-fast; \
	fi

# The extension module as the tests use it: the development profile, beside the package's sources.
extension:
	$(CARGO) build --locked -p celltile-python
	cp $(TARGET_DIR)/debug/libcelltile_native.$(if $(filter Darwin,$(shell uname)),dylib,so) $(EXTENSION).new
	mv $(EXTENSION).new $(EXTENSION)

test-python: export PYTHONPATH := $(ROOT)/python
test-python: $(VENV_STAMP) extension
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

# Under the packages that CELLTILE_INTEROP_PYTHON has, or else in an environment with all that is tested, of several gigabytes.
TORCH_VENV := $(CACHE)/venv-torch
TORCH_PYTHON := $(or $(CELLTILE_INTEROP_PYTHON),$(TORCH_VENV)/bin/python)
$(TORCH_VENV)/.installed: python/requirements-torch.txt
	test -x $(TORCH_VENV)/bin/python || $(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r python/requirements-torch.txt
	touch $@

test-torch: export PYTHONPATH := $(ROOT)/python
test-torch: $(if $(CELLTILE_INTEROP_PYTHON),,$(TORCH_VENV)/.installed) extension
	$(TORCH_PYTHON) -m pytest $(or $(PYTEST_ARGS),python/tests/test_loader_torch.py python/tests/test_loader.py)

# One file for every Python from 3.11 on.
wheel: $(VENV_STAMP)
	rm -rf $(WHEELS)
	$(VENV)/bin/maturin build --release --locked --interpreter $(VENV)/bin/python --out $(WHEELS)

wheel-test: wheel
	scripts/wheel-test $(PYTHON) $(WHEELS)/*.whl fresh
	if [ -n "$${CELLTILE_INTEROP_PYTHON:-}" ]; then \
	  scripts/wheel-test "$$CELLTILE_INTEROP_PYTHON" $(WHEELS)/*.whl beside; \
	else \
	  echo 'CELLTILE_INTEROP_PYTHON is not set: the wheel is tested with one Python only'; \
	fi

bench: build
	$(VENV)/bin/python scripts/bench.py --celltile $(TARGET_DIR)/release/celltile --cells $(BENCH_CELLS)

# The loaders of other packages on the same cells, as far as they are installed; CELLTILE_INTEROP_PYTHON is a Python >= 3.12.
# With CELLTILE_TEST_DATA on real cells too.
BENCH_PYTHON = $(or $(CELLTILE_INTEROP_PYTHON),$(PYTHON))
BENCH_PACKAGE := $(CACHE)/bench-package
bench-loaders: export PYTHONPATH := $(BENCH_PACKAGE)
bench-loaders: wheel
	rm -rf $(BENCH_PACKAGE)
	$(BENCH_PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --target $(BENCH_PACKAGE) $(WHEELS)/*.whl
	$(BENCH_PYTHON) bench/loaders/run.py --folder $(CACHE)/bench-loaders/simulated --out bench/loaders/results/simulated $(BENCH_ARGS)
	if [ -n "$${CELLTILE_TEST_DATA:-}" ]; then \
	  $(BENCH_PYTHON) bench/loaders/run.py --folder $(CACHE)/bench-loaders/real --out bench/loaders/results/real \
	    --input "$$CELLTILE_TEST_DATA"/10x/GSM*.h5 --label source $(BENCH_ARGS); \
	fi

# cargo-fuzz asks for flags that only an unstable compiler takes; this lets the stable one take them. What is found is kept in
# the first folder; the conformance cases and golden tiles are where tiles start from.
SEEDS_tile_raw := crates/celltile-tile/tests/cases crates/celltile-tile/tests/golden
fuzz: export RUSTC_BOOTSTRAP := 1
fuzz:
	command -v cargo-fuzz >/dev/null || $(CARGO) install --locked --root $(CACHE)/cargo cargo-fuzz
	run() { \
	  echo "== $$1, $(FUZZ_SECONDS) s"; mkdir -p "fuzz/corpus/$$1"; \
	  $(CARGO) fuzz run "$$1" "fuzz/corpus/$$1" "$${@:2}" -- \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1; \
	}; \
	$(foreach target,$(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs)),run $(target) $(SEEDS_$(target)) &&) true

# Ignored tests are those that take as long as they are given.
soak: export CELLTILE_SOAK_SECONDS := $(SOAK_SECONDS)
soak: export CELLTILE_TEST_S3S_FS := $(S3S_FS)
soak: $(S3S_FS_STAMP)
	$(CARGO) test --release --locked -p celltile-cli --test cli -- --ignored --nocapture soak

interop: export CELLTILE_TEST_PYTHON := $(VENV)/bin/python
interop: $(VENV_STAMP)
	$(CARGO) test --locked -p celltile-cli --test cli -- --nocapture interop
	$(CARGO) test --locked -p celltile-zarr --test interop -- --nocapture

lint: $(VENV_STAMP)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	scripts/lint-paths

docs: export PYTHONPATH := $(ROOT)/python
docs: $(VENV_STAMP) extension
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	$(VENV)/bin/pdoc --docformat restructuredtext --output-directory $(TARGET_DIR)/doc/python celltile
	@echo 'See $(TARGET_DIR)/doc/celltile/index.html and $(TARGET_DIR)/doc/python/celltile.html'

gallery: export PYTHONPATH := $(ROOT)/python
gallery: $(VENV_STAMP) extension
	$(VENV)/bin/python scripts/gallery.py docs/pictures
