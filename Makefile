# Every target works on a fresh clone: it makes its own .venv first. `make` alone lists them.

# A python3.11 that is on the path but does not start (a version manager's shim) does not count.
PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)

# Many tests start processes: what Python compiles is kept, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo check test test-lowest bench bench-floor bench-peers bench-loads bench-watchdog bench-documents bench-scale bench-others browser containers nightly fmt wheel-check clean
.DELETE_ON_ERROR:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## Import 50,000 rows, kill the worker half-way, watch the import finish
	@$(BIN)/outlast demo

check: $(STAMP) ## Check format, lint, types, import floors and docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

test: $(STAMP) browser containers ## Run the tests, on SQLite and PostgreSQL, three at a time
	$(BIN)/pytest -n 3 --dist worksteal

test-lowest: browser containers ## Run the tests with the lowest version of each dependency that pyproject.toml allows
	$(PYTHON) -m venv --clear $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest --resolution lowest-direct --editable '.[dev]'
	$(VENV)-lowest/bin/pytest -n 3 --dist worksteal

bench: bench-floor bench-peers bench-loads bench-watchdog bench-documents bench-scale bench-others ## Measure everything: two hours or more; the next seven are its parts

bench-floor: $(STAMP) ## Measure throughput against the bare database, and what lies between the two
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.ladder

bench-peers: $(STAMP) ## Measure side by side with DBOS and Temporal, which are installed for it
	$(BIN)/python -m benchmarks.beside

bench-loads: $(STAMP) ## Measure timers, messages, recovery, memory, growth and computing neighbours
	$(BIN)/python -m benchmarks.loads

bench-watchdog: $(STAMP) ## Measure idle passes, enforcement and lateness, DBOS's as well
	$(BIN)/python -m benchmarks.watchdog --with-dbos

bench-documents: $(STAMP) ## Measure documents: calls, tasks, expressions, replay, checking, events
	$(BIN)/python -m benchmarks.documents

bench-scale: $(STAMP) ## Measure a million open runs, 100,000 timers of one instant, and ten million old events
	$(BIN)/python -m benchmarks.scale

bench-others: $(STAMP) ## Measure hand-over, the outbox, two worker processes, bulk operations, DAGs and what fires when
	$(BIN)/python -m benchmarks.handover
	$(BIN)/python -m benchmarks.outbox --count 60
	$(BIN)/python -m benchmarks.scaling --processes 1 2
	$(BIN)/python -m benchmarks.resuming
	$(BIN)/python -m benchmarks.dags
	$(BIN)/python -m benchmarks.dag_views
	$(BIN)/python -m benchmarks.upcoming

browser: ## Install the browser that the dashboard's tests use, where there is none
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
		{ echo "the dashboard's tests need Chromium: install it with your system's packages"; exit 1; }

containers: ## Install the engine that the tests of containers use, where there is none
	@{ command -v podman && command -v busybox && { command -v runc || command -v crun; }; } >/dev/null || { \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			podman runc busybox-static >/dev/null; } || \
		{ echo "the tests of containers need Podman and a static busybox: install them with your system's packages"; exit 1; }

# Each night has seeds of its own; what a seed finds is found again by its number.
nightly: $(STAMP) browser containers ## Run the long tests and the long simulation: hours
	$(BIN)/pytest -m nightly --timeout 7200 -n 3 --dist worksteal --hypothesis-profile exploring
	$(BIN)/python -m tests.simulation --seeds 100000 --processes $$(getconf _NPROCESSORS_ONLN) \
		--first $$(( $$(date +%s) / 86400 % 1000 * 100000 ))

fmt: $(STAMP) ## Format the code and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel-check: $(STAMP) ## Build the wheel and try it in an empty environment
	$(BIN)/pytest tests/house/test_wheel.py

clean: ## Remove everything that the other targets make
	rm -rf $(VENV) $(VENV)-lowest .site build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is touched last, so an interrupted install is done again.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "outlast needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
