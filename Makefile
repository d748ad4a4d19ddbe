# `make` lists the targets. Everything is installed in .venv and nothing outside of it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ZEROSIM := $(BIN)/zerosim
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
TORCH := $(shell sed -n '/^torch==/p' constraints.txt)
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r name what; \
	do printf '%-12s %s\n' "$$name" "$$what"; done

setup: $(STAMP)  ## install zerosim and its tools in .venv (a minute or two, once)

demo: setup  ## run all stages on 4 ranks and keep the traces in traces/demo
	$(ZEROSIM) run --stage all --ranks 4 --steps 30 --out traces/demo --overwrite
	$(ZEROSIM) compare traces/demo/stage-0 traces/demo/stage-1 traces/demo/stage-2 traces/demo/stage-3

test: setup  ## run the tests
	$(BIN)/python -m pytest

check: setup  ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: setup  ## measure what tracing costs
	$(BIN)/python -m tests.bench

clean:  ## remove traces, caches and .venv
	rm -rf $(VENV) traces dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	    .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and alone: it is the largest by far, and the one that a machine may have in a
# build of its own. The rest is then installed beside whatever build that is.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "zerosim needs \
	Python 3.11 or later, and '$(PYTHON)' is not: try make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@echo "installing $(TORCH) in $(VENV)"
	@$(PIP) install '$(TORCH)'
	@echo "installing zerosim and its tools"
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@
