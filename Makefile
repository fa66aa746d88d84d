# The two commands of the README are `make serve` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Three processes for two cores, since many tests wait for others; a file at a time to whichever is free, in the order of
# the folders: the many short files of tests/unit come last, so that all end at about the same time.
PYTEST := $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

SOAK_MINUTES ?= 30

# What also runs against two workers: in `make test` what finds most in a second, in `make soak` the rest, too.
WORKER_TESTS := tests/conformance/test_suite.py $(addprefix tests/integration/test_, streams.py sessions_append.py \
	sessions_live.py keys.py)
WORKER_SOAK_TESTS := tests/conformance tests/anthropic tests/importers tests/hostile $(addprefix tests/integration/test_, \
	streams.py sessions_append.py sessions_read.py sessions_live.py sessions_lifecycle.py subscriptions.py \
	memory.py subscription_objects.py subscription_patterns.py keys.py audit.py search.py sdk.py)

.PHONY: setup serve cluster test stalls browser shots test-adapters soak lint bench clean

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

# Three NATS servers, an S3 server and three nodes on ports 4437 to 4439, until Ctrl-C; see docs/howto/run-a-cluster.md.
cluster: setup
	@exec $(BIN)/python -m tools.local_cluster

test: setup lint browser
	$(PYTEST)
	TEST_WORKERS=2 $(PYTEST) $(WORKER_TESTS)

# Nothing holds the event loop for more than 20 ms: for a machine that does nothing else.
stalls: setup
	$(BIN)/pytest tests/hostile/test_stalls.py

# The adapters of frameworks that are too large for the other environment, with the frameworks' own tests; and Inspect,
# which reads our exports.
ADAPTERS := .venv-adapters

# Without all packages it is not ready: what is missing is asked for again at the next run.
$(ADAPTERS)/.ready: requirements.lock requirements-adapters.lock pyproject.toml
	@echo "Installing agent frameworks into $(ADAPTERS): once, a few minutes, 1.2 GB"
	@$(PYTHON) -m venv $(ADAPTERS)
	@$(ADAPTERS)/bin/python -m pip install --quiet --no-deps --editable .
	@if $(ADAPTERS)/bin/python -m pip install --quiet --require-hashes --requirement requirements-adapters.lock \
		|| $(ADAPTERS)/bin/python -m tools.install_each requirements-adapters.lock; then touch $@; fi

# What cannot be had is skipped, and the end of the run names it. Two processes, since most tests wait for others.
test-adapters: $(ADAPTERS)/.ready
	@$(ADAPTERS)/bin/python -m tools.upstream_tests
	$(ADAPTERS)/bin/python -m pytest -p no:asyncio -n 2 --dist loadfile tests/adapters \
		tests/unit/test_extras.py tests/unit/exporters/test_inspect_package.py

# The tests of the web page want a real browser. It is installed where that needs no question; else they are skipped,
# and the end of the run says so.
browser:
	@if ! command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] \
		&& command -v apt-get >/dev/null 2>&1; then \
		echo "Installing Chromium for the tests of the web page: once, a minute or two"; \
		for package in chromium-headless-shell chromium; do \
			timeout 300 env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$package \
				>/dev/null 2>&1 && exit; done; echo "Chromium could not be installed: tests of the web page are skipped"; \
	fi

# The suites that look for lost data and unserved clients, each for SOAK_MINUTES: make soak SOAK_MINUTES=600
soak: setup
	$(BIN)/python -m durable_sessions.testing.simulation --minutes $(SOAK_MINUTES)
	$(BIN)/python -m durable_sessions.testing.simulation --work --minutes $(SOAK_MINUTES)
	$(BIN)/python -m durable_sessions.testing.simulation --sessions --minutes $(SOAK_MINUTES)
	SOAK_SECONDS=$$(( $(SOAK_MINUTES) * 60 / 16 + 1 )) \
		LONG_RUNNING_RUNS=100 $(BIN)/pytest tests/chaos -o tmp_path_retention_policy=failed
	SOAK_SECONDS=$$(( $(SOAK_MINUTES) * 60 )) $(BIN)/pytest tests/cluster
	SOAK_SECONDS=$$(( $(SOAK_MINUTES) * 30 )) $(BIN)/pytest tests/integration/test_sdk_cut.py
	TEST_WORKERS=2 $(PYTEST) $(WORKER_SOAK_TESTS)
	SEARCH_WRITES=$$(( $(SOAK_MINUTES) * 10 )) KILLED_STARTS=$$(( $(SOAK_MINUTES) + 8 )) \
		$(BIN)/pytest tests/integration/test_search_fresh.py tests/integration/test_search_process.py
	SESSION_MODEL_EXAMPLES=$$(( $(SOAK_MINUTES) * 20 )) HYPOTHESIS_CASES=new \
		$(BIN)/pytest tests/integration/test_sessions_beside_model.py
	for round in $$(seq $$(( $(SOAK_MINUTES) / 4 + 1 ))); do HYPOTHESIS_CASES=new $(BIN)/pytest -n 2 tests/unit || exit 1; done
	$(MAKE) stalls
	HOSTILE_ROUNDS=$(SOAK_MINUTES) HOSTILE_SEED=$$(date +%s) $(BIN)/pytest tests/hostile

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# The pictures of the web page in the README.
shots: setup browser
	$(BIN)/python -m tools.shots

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) $(ADAPTERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
