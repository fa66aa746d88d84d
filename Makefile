# The two commands of the README are `make serve` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

SOAK_MINUTES ?= 30

.PHONY: setup serve test soak lint bench clean

setup: $(VENV)/.dev

$(VENV)/.created:
	@echo "Making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.created requirements.lock pyproject.toml
	@echo "Installing what the server needs into $(VENV): once, about half a minute"
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --quiet --no-deps --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	@echo "Installing what the tests need into $(VENV): once, a minute or two"
	@$(PIP) install --quiet --require-hashes --requirement requirements-dev.lock
	@touch $@

serve: $(VENV)/.runtime
	$(BIN)/durable-sessions serve

test: setup lint
	$(BIN)/pytest -n 2 --dist loadfile

# The suites that look for lost data and unserved clients, each for SOAK_MINUTES: make soak SOAK_MINUTES=600
soak: setup
	$(BIN)/python -m durable_sessions.testing.simulation --minutes $(SOAK_MINUTES)
	DURABLE_SESSIONS_SOAK_SECONDS=$$(( $(SOAK_MINUTES) * 60 / 16 + 1 )) \
		$(BIN)/pytest tests/chaos -o tmp_path_retention_policy=failed
	DURABLE_SESSIONS_SOAK_SECONDS=$$(( $(SOAK_MINUTES) * 30 )) $(BIN)/pytest tests/integration/test_sdk_cut.py
	for round in $$(seq $$(( $(SOAK_MINUTES) / 4 + 1 ))); do HYPOTHESIS_CASES=new $(BIN)/pytest -n 2 tests/unit || exit 1; done
	HOSTILE_ROUNDS=$(SOAK_MINUTES) HOSTILE_SEED=$$(date +%s) $(BIN)/pytest tests/hostile

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
