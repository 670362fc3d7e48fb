# Every target sets up what it needs in .venv by itself. PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test check bench tables tree clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

# The stamp is younger than the files that decide what is installed: nothing runs when it is up to date.
.venv/installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "rankreg needs Python 3.11 or newer: make PYTHON=python3.12 ..., after make clean"; exit 2; }
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group dev
	@touch $@

demo: .venv/installed ## a rare digit, learned with and without rankreg
	@$(BIN)/rankreg demo

test: .venv/installed ## the whole suite
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS)

check: .venv/installed ## format, lint, types, import contracts, fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) -m "not slow" -q

bench: .venv/installed ## speed and memory, as ratios
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

tables: .venv/installed ## docs/tables, from the records
	@$(BIN)/python docs/render.py

tree: .venv/installed ## the list of files in docs/architecture.md
	@$(BIN)/python -m docs.tree

clean: ## remove the environment and every cache
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
