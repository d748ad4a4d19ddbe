# `make` lists the targets. Everything is installed in .venv and node_modules, and nothing outside of
# them but Debian's chromium, which the browser tests need, where no Chromium is found; and iproute2,
# which root needs for the tests over two nodes, where there is no `ip`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ZEROSIM := $(BIN)/zerosim
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
TORCH := $(shell sed -n '/^torch==/p' constraints.txt)
DEEPSPEED := $(shell sed -n 's/^deepspeed = \["\(.*\)"\]/\1/p' pyproject.toml)
STAMP := $(VENV)/.installed
# node comes as a Python package; npm looks for it on the PATH
NPM := PATH="$(CURDIR)/$(BIN):$$PATH" npm
NODE_STAMP := node_modules/.installed
CHROMIUM_STAMP := $(VENV)/.chromium
IP_STAMP := $(VENV)/.ip
DEEPSPEED_STAMP := $(VENV)/.deepspeed
# Debian's chromium without a window first: it shows a page in two thirds of the time
CHROMIUM_NAMES := chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable
DEMO := traces/demo
PORT ?= 8050

.DEFAULT_GOAL := help
CHECKS := check-types check-layers check-player check-lint
.PHONY: help setup demo test test-long test-gpu check $(CHECKS) pictures slides notebooks \
    site assignments bench deepspeed test-deepspeed clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r name what; \
	do printf '%-20s %s\n' "$$name" "$$what"; done

# DeepSpeed is tested like all else; where it cannot be installed, `make test` says what it left out.
setup: $(STAMP) $(NODE_STAMP) $(CHROMIUM_STAMP) $(IP_STAMP)  ## install zerosim and its tools (minutes, once)
	@$(MAKE) --no-print-directory deepspeed || \
	    echo "DeepSpeed cannot be installed here: its tests are skipped"

demo: $(STAMP)  ## run all stages on 4 ranks, and compare them in a browser (PORT=8050)
	$(ZEROSIM) run --stage all --ranks 4 --steps 10 --out $(DEMO) --overwrite
	@$(ZEROSIM) compare --brief $(DEMO)/stage-0 $(DEMO)/stage-1 $(DEMO)/stage-2 $(DEMO)/stage-3
	@$(ZEROSIM) serve $(DEMO) --port $(PORT) --open --compare

# tests/__main__.py says which parts there are: all of them run, whatever becomes of the others.
test: export OMP_NUM_THREADS = 1
test: setup  ## run the tests (minutes)
	@$(BIN)/python -m tests

test-long: export OMP_NUM_THREADS = 1
test-long: setup  ## run the longer fuzzing and soaks, which make test leaves out (an hour)
	@$(BIN)/python -m tests long

test-gpu: export OMP_NUM_THREADS = 1
test-gpu: $(STAMP)  ## run what needs a GPU on one of them, and write docs/gpu.md's table (5 minutes)
	@$(BIN)/python -m tests.gpu

check: $(STAMP) $(NODE_STAMP)  ## lint, format, types, layers; the player's as well
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync $(CHECKS)

check-types:
	$(BIN)/mypy

check-layers:
	$(BIN)/lint-imports --no-logo

check-player:
	$(NPM) run --silent check

check-lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

pictures: setup  ## draw the video and the pictures of README.md and docs/
	$(BIN)/python -m tests.pictures docs

slides: setup  ## write every lesson's slides to slides/: on paper, and as a page with notes
	@mkdir -p slides
	@for file in lessons/lesson[0-9][0-9]_*.py; do \
	    name=$$(basename $$file .py); number=$$(echo $$name | sed "s,lesson0*\([0-9][0-9]*\)_.*,\1,"); \
	    $(ZEROSIM) export --lesson $$number --page slides --html slides/$$name.html \
	        --pdf slides/$$name.pdf --overwrite || exit $$?; done

notebooks: $(STAMP)  ## write every lesson and puzzle as a notebook to notebooks/
	$(ZEROSIM) notebook all --out notebooks --overwrite

site: $(STAMP)  ## write the documentation, lessons, puzzles and replays as a web site to site/ (minutes)
	$(ZEROSIM) export --site site --overwrite

assignments: setup  ## write the hand-outs of docs/assignments.md to assignments/, on paper
	$(BIN)/python -m zerosim.dashboards.handouts docs/assignments.md assignments

bench: setup  ## measure what tracing costs, and what serving takes
	$(BIN)/python -m tests.bench

deepspeed: $(DEEPSPEED_STAMP)  ## install DeepSpeed beside zerosim, which never needs it

test-deepspeed: export OMP_NUM_THREADS = 1
test-deepspeed: $(DEEPSPEED_STAMP)  ## run the tests that train with DeepSpeed (minutes)
	$(BIN)/python -m pytest -n 0 -m deepspeed

clean:  ## remove traces, caches, .venv and node_modules
	rm -rf $(VENV) node_modules traces slides notebooks site assignments dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	    .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and alone: it is the largest by far, and the one that a machine may have in a
# build of its own. The rest is then installed beside whatever build that is.
$(STAMP): pyproject.toml constraints.txt | dashboards lessons .editable/zerosim
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "zerosim needs \
	Python 3.11 or later, and '$(PYTHON)' is not: try make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@echo "installing $(TORCH) in $(VENV)"
	@$(PIP) install '$(TORCH)'
	@echo "installing zerosim and its tools"
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

$(NODE_STAMP): package.json package-lock.json $(STAMP)
	@echo "installing the tools that check the player in node_modules"
	@$(NPM) ci --silent --prefer-offline
	@touch $@

# An archive of the sources has no links, and these in zerosim/ alone.
dashboards lessons:
	@ln -s zerosim/$@ $@

.editable/zerosim:
	@mkdir -p $(@D) && ln -s ../zerosim $@

# DeepSpeed's build looks at the torch and the tools that are installed. It need not compile: on a CPU
# its operators are PyTorch's.
$(DEEPSPEED_STAMP): $(STAMP)
	@echo "installing $(DEEPSPEED)"
	@$(PIP) install -c constraints.txt numpy setuptools wheel py-cpuinfo ninja hjson psutil \
	    pydantic tqdm einops msgpack packaging
	@DS_BUILD_OPS=0 DS_ACCELERATOR=cpu $(PIP) install -c constraints.txt --no-build-isolation \
	    '$(DEEPSPEED)'
	@touch $@

# Without one everything works but the tests in a browser, which say so themselves.
$(CHROMIUM_STAMP): $(STAMP)
	@for name in $${CHROMIUM:+"$$CHROMIUM"} $(CHROMIUM_NAMES); do \
	    if command -v "$$name" >/dev/null; then touch $@; exit 0; fi; done; \
	echo "installing Debian's chromium, for the tests in a browser"; \
	root=; test "$$(id -u)" = 0 || { root="sudo"; test -t 0 || root="sudo -n"; }; \
	{ $$root apt-get update -qq && \
	$$root apt-get install -qq --no-install-recommends chromium-headless-shell; } \
	    >/dev/null 2>&1 && touch $@ || echo "note: it could not be installed; 'make test' needs \
	chromium or google-chrome on the PATH, or CHROMIUM=/path/to/one" >&2

# Two network namespaces need root, so others need no `ip` either; without it those tests are skipped
# and say why.
$(IP_STAMP): $(STAMP)
	@if test "$$(id -u)" != 0 || command -v ip >/dev/null; then touch $@; exit 0; fi; \
	echo "installing Debian's iproute2, for the tests over two nodes"; \
	{ apt-get update -qq && apt-get install -qq --no-install-recommends iproute2; } \
	    >/dev/null 2>&1 && touch $@ || echo "note: it could not be installed; the tests over two \
	nodes are left out without ip" >&2
