# Every target sets up what it needs in .venv by itself. PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test check bench docs tables pictures tree package lowest clean

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

tables: .venv/installed ## docs/tables, the pages on results and the numbers in other pages, from the records
	@$(BIN)/python -m docs.render
	@$(BIN)/python -m docs.blocks

pictures: .venv/installed ## the pictures of the theory pages, from code and records
	@OMP_NUM_THREADS=1 $(BIN)/python -m docs.pictures

docs: .venv/installed ## the site, in site/: warnings are errors, nothing is fetched
	@OMP_NUM_THREADS=1 MPLBACKEND=Agg $(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs site

tree: .venv/installed ## the list of files in docs/architecture.md
	@$(BIN)/python -m docs.tree

package: .venv/installed ## wheel and sdist, tried in an empty environment
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group release
	@$(BIN)/python -m release.package

lowest: .venv/installed ## tests with the lowest versions of all dependencies
	@$(BIN)/python -m release.lowest

clean: ## remove the environment and every cache
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
