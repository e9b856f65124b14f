# Every target first creates .venv with all its dependencies.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all fuzz bench lint clean

demo: $(VENV)/installed
	$(BIN)/python -m tpcds.demo --out out/demo

test: $(VENV)/installed
	$(BIN)/python -m tests.run

test-all: $(VENV)/installed
	$(BIN)/python -m tests.run --all

fuzz: $(VENV)/installed
	$(BIN)/python -m tests.fuzz $(FUZZ)

bench: $(VENV)/installed
	$(BIN)/python -m tests.bench $(BENCH)

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; install Python 3.11, or name another: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) out
