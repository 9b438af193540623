# What can be asked for: setup, demo, test, faults, screenshots, up, down, status, bench, pins, clean. See README.md.
SHELL := /bin/bash
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest

.PHONY: setup up down status demo test tools screenshots lint faults bench pins clean

setup:
	@local/setup.sh

up: setup
	@$(PYTHON) -m local.stack up

down:
	@if [ -x $(PYTHON) ]; then $(PYTHON) -m local.stack down; else echo "sluice: nothing runs"; fi

status:
	@$(PYTHON) -m local.stack status

demo: up
	@$(PYTHON) -m local.demo

lint:
	@$(PYTHON) -m ruff check .

# Cheapest first: a mistake that a unit test finds must not wait for Spark.
test: setup tools lint
	$(PYTEST) tests/unit
	$(PYTEST) tests/dags
	$(PYTEST) tests/integration tests/faults
	$(PYTEST) tests/browser

tools:
	@local/test_tools.sh

# The pictures of README.md, out of the run that tests the page.
screenshots: setup tools
	mkdir -p docs/images && SLUICE_SCREENSHOTS=docs/images $(PYTEST) tests/browser

# The long form of tests/faults: hundreds of kills, races and faults, and a table of them at the end.
faults: setup
	$(PYTEST) tests/faults --long

bench: setup
	@$(PYTHON) -m benchmarks

pins:
	.venv/bin/uv pip compile requirements.in -o requirements.txt --python-version 3.11 --no-annotate \
	  --custom-compile-command "make pins"
	.venv/bin/uv pip compile requirements-dev.in -o requirements-dev.txt --python-version 3.11 --no-annotate \
	  --custom-compile-command "make pins"

clean: down
	rm -rf .venv .deps var .pytest_cache .ruff_cache
