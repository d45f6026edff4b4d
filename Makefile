# From a bare machine (python3, make, git): `make studio` to use it, `make test` to check it.
PYTHON ?= python3
BIN := .venv/bin
# Bytecode is kept, also where the environment forbids that: the hundreds of processes that tests start would
# compile it anew.
KEPT := PYTHONDONTWRITEBYTECODE=

.PHONY: help studio demo test lint types quick browser soak mutants docs lock clean

help:
	@echo "make studio  draw a collection, index it, open a storyboard in the browser"
	@echo "make demo    draw a collection, index it, illustrate four texts, one of them by pixels too"
	@echo "make test    format, lint, strict types, all tests"
	@echo "make quick   the fast tests only"
	@echo "make browser the tests of all pages in a real browser (Chromium), which make test holds too"
	@echo "make soak    tests that take long, and studio and study server under load for ten minutes and two"
	@echo "make mutants  break limner in small ways, and count what the tests notice: MUTANTS=300 SEED=0"
	@echo "make docs    write docs/commands.md from --help, and build the documentation into build/docs"
	@echo "make lock    pin the dependencies of a release with their hashes, in requirements.lock"

# The product alone, and all that tests and tools need beside it, in one environment. Each is installed again only
# when the list of dependencies changes.
.venv/product: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/installed: .venv/product
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

# The collection is drawn once, and again when its tables change: what was made in the studio since then stays.
# TEXT is the text to open, a file of demo/texts; STUDIO holds further options, such as STUDIO=--no-browser.
TEXT ?= photographs.md
studio: .venv/product demo/.drawn
	$(BIN)/limner studio --library demo/library --text demo/texts/$(TEXT) $(STUDIO)

demo/.drawn: src/limner/research/worlds/demo.toml src/limner/research/worlds/photographs.toml | .venv/product
	$(BIN)/limner demo demo
	@touch $@

demo: .venv/product
	$(BIN)/limner demo demo

# Three workers on two cores: one works while others wait for a browser or another process. Each begins with
# tests that lie together, so that what a module prepares is prepared once, and takes over what others have left.
test: lint types .venv/installed
	$(KEPT) $(BIN)/python -m pytest -m "not soak" -n 3 -rfEs

quick: .venv/installed
	$(KEPT) $(BIN)/python -m pytest

browser: .venv/installed
	$(KEPT) $(BIN)/python -m pytest -m slow -n 2 -rs tests/browser tests/export/test_page_browser.py

# pytest ends with 5 where no test is marked so. SOAK holds options of the studio's, such as SOAK="--seconds 300".
soak: .venv/installed
	$(KEPT) $(BIN)/python -m pytest -m soak -rs || test $$? -eq 5
	$(BIN)/python benchmarks/studio_soak.py --to build/soak $(SOAK)
	$(BIN)/python benchmarks/study_load.py

# Hours for a sample: half a minute for what a test notices, minutes for what none does.
MUTANTS ?= 300
SEED ?= 0
mutants: .venv/installed
	$(KEPT) $(BIN)/python benchmarks/mutants.py --mutants $(MUTANTS) --seed $(SEED)

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/installed
	$(BIN)/mypy

docs: .venv/installed
	$(BIN)/python -m limner.cli.reference > docs/commands.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/docs/index.html"

# In an environment of its own: uv is no dependency.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv
	build/lock/bin/uv pip compile --no-config --universal --python-version 3.11 \
		--generate-hashes --no-header --quiet --constraint constraints.txt pyproject.toml --output-file requirements.lock

clean:
	rm -rf .venv demo build dist .mypy_cache .ruff_cache .pytest_cache
