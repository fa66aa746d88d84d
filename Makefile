# The two commands of the README are `make serve` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: setup serve test lint bench clean

setup: $(VENV)/.dev

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.runtime: $(VENV)/.created requirements.lock pyproject.toml
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --no-deps --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(PIP) install --require-hashes --requirement requirements-dev.lock
	touch $@

serve: $(VENV)/.runtime
	$(BIN)/durable-sessions serve

test: setup lint
	$(BIN)/pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
