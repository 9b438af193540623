# What can be asked for: setup, demo, demo-wide, test, faults, mutants, screenshots, docs, up, down, status, bench,
# release, pins, pin-images, shell, clean, test-stock; and up-cluster, down-cluster, test-cluster
# (docs/guide/cluster.md). See README.md.
SHELL := /bin/bash
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
# How many test processes. Those with servers of their own wait a third of their time.
JOBS := 2
SERVER_JOBS := 3

.PHONY: setup up down status shell demo demo-wide test tools screenshots docs lint faults mutants bench release pins
.PHONY: pin-images clean size
.PHONY: setup-cluster up-cluster down-cluster status-cluster test-cluster test-stock

setup:
	@local/setup.sh

up: setup
	@$(PYTHON) -m local.stack up

down:
	@if [ -x $(PYTHON) ]; then $(PYTHON) -m local.stack down; else echo "sluice: nothing runs"; fi

status:
	@$(PYTHON) -m local.stack status

# A shell with the stack's environment: airflow and sluice are commands there.
shell: setup
	@$(PYTHON) -m local.shell

demo: up
	@$(PYTHON) -m local.demo

# Two Kafka clusters and two ClickHouse shards, and one cluster goes away; needs no `up`.
demo-wide: setup
	@$(PYTHON) -m local.demo --wide

lint:
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m mypy --no-error-summary
	@.venv/bin/lint-imports --no-cache --no-logo

size:
	@$(PYTHON) -m local.size

# The wide stack: Spark on a cluster, Airflow on PostgreSQL with Celery, the lake on S3.
setup-cluster: setup
	@local/cluster/setup.sh

up-cluster: setup-cluster
	@$(PYTHON) -m local.cluster up

down-cluster:
	@if [ -x $(PYTHON) ]; then $(PYTHON) -m local.cluster down; else echo "sluice: nothing runs"; fi

status-cluster:
	@$(PYTHON) -m local.cluster status

test-cluster: setup-cluster
	$(PYTEST) tests/cluster

# Cheapest first: a mistake that a unit test finds must not wait for Spark.
test: setup tools lint
	$(PYTEST) tests/unit tests/dags -n $(JOBS) --dist worksteal
	$(PYTEST) tests/faults tests/integration -n $(SERVER_JOBS) --dist loadfile --no-loadscope-reorder
	$(PYTEST) tests/browser

# From the wheel alone: a stock Airflow on PostgreSQL, by docs/guide/airflow.md as written, with kills, a hundred
# pipelines, upgrade and rollback; then that each Airflow which the wheel declares takes it, and each Python of those
# that this machine has.
test-stock: setup-cluster
	$(PYTEST) tests/stock tests/integration/airflow/test_stock_airflow.py --long -s

tools:
	@local/test_tools.sh
	@$(PYTHON) -m local.class_data

# The pictures of README.md and docs, out of the run that tests the page.
screenshots: setup tools
	mkdir -p docs/images && SLUICE_SCREENSHOTS=docs/images $(PYTEST) tests/browser --long

# A site of README.md, its neighbours and docs/, with search, in var/site. A link or an anchor that leads nowhere fails.
docs: setup
	@$(PYTHON) -m local.documents.generated
	@local/documents/setup.sh
	@$(PYTHON) -m local.documents.site

# Every fault test, and all that `make test` leaves out: hundreds of kills, races and faults, and a table of them at the
# end.
faults: setup tools
	$(PYTEST) tests/unit tests/dags tests/integration tests/faults --long -m "long or faults" -n $(JOBS) --dist worksteal \
	  -o faulthandler_timeout=7200
	$(PYTEST) tests/browser --long

# Changes what decides, one place at a time, and asks the tests each time (docs/RELIABILITY.md, "Mutants"): an hour or
# two, and it goes on where it was stopped. ROOMS="slices plan" are only these; `rm -r var/mutants` begins anew.
mutants: setup
	@nice -n 19 $(PYTHON) -m tests.mutants $(ROOMS)

bench: setup
	@$(PYTHON) -m benchmarks

# Of a clean tree: checks, version, wheel and source archive in dist/, commit and tag. Pushes nothing.
release:
	@$(PYTHON) -m local.release "$(VERSION)"

# Pins with the hashes of every file of a release, so that a registry can put nothing else in its place. No
# registry's address gets into the files. Then the same of the jars and of ClickHouse's library.
COMPILE := .venv/bin/uv pip compile --python-version 3.11 --no-annotate --generate-hashes --no-emit-index-url \
  --no-emit-find-links --custom-compile-command "make pins"

pins:
	for part in "" -dev -cluster -setup -docs; do \
	  $(COMPILE) requirements$$part.in -o requirements$$part.txt || exit; done
	$(COMPILE) --extra spark pyproject.toml -c requirements.txt -o requirements-job.txt
	$(PYTHON) -m local.fetch --pin

# Needs Docker with buildx, and the registries of the images.
pin-images:
	$(PYTHON) -m local.image_digests

clean: down down-cluster
	rm -rf .venv .deps var .pytest_cache .ruff_cache
