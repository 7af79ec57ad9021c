# The targets people type. Each installs what it needs first (scripts/setup.sh: the one list of what that is).
.DEFAULT_GOAL := help
SHELL := /bin/bash
JOBS ?= $(shell nproc)
PACKAGES ?= 3000
TORCH ?= 1
TIDY ?= 1

CXX_FILES = $(shell git ls-files '*.c' '*.cpp' '*.h' '*.hpp' '*.cu' '*.cuh')
PYTHON_FILES = $(shell git ls-files '*.py')

.PHONY: help demo test bench format lint clean

help:  ## show this
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo:  ## rank Debian's package descriptions; ASK="a tool to ..." asks just that, PACKAGES=n sets how many
	@scripts/setup.sh build demo
	@[ -f build/demo/build.ninja ] || cmake --preset demo >&2
	@cmake --build --preset demo -j $(JOBS) >&2
	@.venv/bin/python examples/demo/demo.py --packages $(PACKAGES) $${ASK:+--ask "$$ASK"}

test:  ## build everything, run every test; TORCH=0 leaves out torch and the tests that need it
	scripts/setup.sh build demo test $(if $(filter 1,$(TORCH)),torch)
	cmake --preset release
	cmake --build --preset release -j $(JOBS)
	ROWMAX_PYTHON=$(CURDIR)/.venv/bin/python ctest --preset release -j $(JOBS)
	.venv/bin/python -m pip install --quiet --no-build-isolation --no-deps -C cmake.define.ROWMAX_WERROR=ON .
	.venv/bin/python -m pytest tests

bench:  ## measure, beside the machine's peak and rivals on the same data; one table
	scripts/setup.sh build bench
	ROWMAX_BENCH_PYTHON=.venv/bin/python bench/run.sh

format:  ## bring all sources into the project's form
	scripts/setup.sh lint
	clang-format-14 -i $(CXX_FILES)
	.venv/bin/ruff check --quiet --fix-only $(PYTHON_FILES)

lint:  ## formatting, ruff and clang-tidy (TIDY=0 leaves it out): complains, changes nothing
	scripts/setup.sh build lint
	clang-format-14 --dry-run --Werror $(CXX_FILES)
	.venv/bin/ruff check $(PYTHON_FILES)
ifeq ($(TIDY),1)
	cmake --preset release
	python3 scripts/tidy.py build/release
endif

clean:  ## remove what was built; .venv and demo-data stay
	rm -rf build dist
