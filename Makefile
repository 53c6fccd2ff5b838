# `make` alone lists the targets. Every target first installs its requirements into .venv (see scripts/bootstrap).
.DEFAULT_GOAL := help
.PHONY: help demo demo-catalogue demo-core demo-sheet demo-sync simulate test test-quick test-aws check mutants bench bench-matrix bench-peers docs clean
.PHONY: test-postgres coverage mutation removals damage-sweep healthy hostile endurance corpus wheels soak soak-simulation soak-clients soak-histories soak-postgres soak-backups soak-sheet soak-engine soak-table soak-catalogue record ready-demo ready-dev ready-browser ready-postgres ready-office
.PHONY: check-style check-types check-javascript test-convergence test-convergence-servers test-branches test-retries test-tampering

python := .venv/bin/python
# Some container images set this variable. Each process of a target would then compile every module of the library again,
# which takes half a second of CPU, and `make test` starts many processes.
unexport PYTHONDONTWRITEBYTECODE
# A demo stores its data in a folder. With STORE=aws-local, the demo starts emulators of DynamoDB, SQS and S3 and stores
# its data there. With STORE=postgresql-local, the demo does the same with a server of PostgreSQL. The emulators and the
# server end with the demo, and need the development requirements.
STORE ?=
ready_store := $(if $(filter aws% postgresql%,$(STORE)),ready-dev,ready-demo) $(if $(filter postgresql-local,$(STORE)),ready-postgres)
beside := $(if $(filter aws-local,$(STORE)),aws_local) $(if $(filter postgresql-local,$(STORE)),postgres_local)
on_store := $(addprefix $(python) -m stratalog.testing.,$(strip $(beside))) $(python)
store := $(if $(filter aws-local,$(STORE)),aws://stratalog,$(if $(filter postgresql-local,$(STORE)),postgresql:///postgres,$(STORE)))
BENCH_JSON ?= bench.json
BENCH_MATRIX_JSON ?= bench-matrix.json
RUNS_JSON ?= runs.json
SEEDS ?= 200000
SESSIONS ?= 1800
HISTORIES ?= 10
ROUNDS ?= 20
TEST_SEEDS ?= 5000
QUICK_SEEDS ?= 500
# COMMIT_SEED follows from the commit, so that everyone who tests a commit uses the same seeds. FRESH_SEED, for soaks,
# differs for each run.
COMMIT_SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1))
FRESH_SEED ?= $(shell date +%s)
SEED ?= $(FRESH_SEED)
MUTATIONS ?= 300
MUTATION_SEED ?= 1
WORLD ?=
WORKERS ?= auto
# Each pytest worker begins with neighbouring tests, which share a module's fixtures, and later takes tests that another
# worker has not begun.
in_parallel := -n $(WORKERS) --dist worksteal
# This command runs two targets at once, which use one core each. It prints the output of a target at the target's end.
two_at_once = $(MAKE) --no-print-directory --jobs 2 --output-sync=target
# This command adds a line to $(RUNS_JSON): commit, command, seconds, result. The target is the name of the rule.
recorded = $(python) scripts/record_run.py run --json $(RUNS_JSON) --target $@ --
# The tests that `make test-aws` runs on an account: the contract of the index, the command line, a copy.
ON_ACCOUNT := tests/cloud/test_dynamodb.py tests/cloud/test_command_line.py tests/cloud/test_copying.py
# Suites that open a store in memory and also pass on PostgreSQL. Suites that open many stores at once, or replace parts of
# the backend in memory, are not among them.
ON_POSTGRESQL := $(patsubst %,tests/documents/test_%.py,faults mapping merging redaction) \
	$(patsubst %,tests/maintenance/test_%.py,checkpoint damaged_values exchange inspection maintain) \
	$(patsubst %,tests/maintenance/test_%.py,read_only repair usage verification) \
	$(patsubst %,tests/server/test_%.py,acceptor api_documents api_edge api_logs api_names audit body_spool connection_shares) \
	$(patsubst %,tests/server/test_%.py,connections live_right push queue_convergence queue_http quotas trusted_proxies) \
	$(patsubst %,apps/sheet/tests/test_%.py,blame bounds commands commits comparison deletion forgotten http) \
	$(patsubst %,apps/sheet/tests/test_%.py,limits_reached loaded poison restored sheet state titles demo_workbook engine) \
	$(patsubst %,apps/catalogue/tests/test_%.py,deletions dry_run encodings http letters migrating polls source_rename taking works) \
	$(patsubst %,tests/server/test_%.py,api_live handovers web_server) apps/table/tests/test_committing.py \
	$(patsubst %,tests/test_%.py,arguments process_fork settings store) tests/documents/test_golden_reasons.py \
	$(patsubst %,tests/aws/test_%.py,api sockets) tests/backups/test_lost_blobs.py tests/backups/test_damaged_items.py tests/records/test_lost_bodies.py
ROWS ?= 5000000
RECORDS ?= 1000000
KILLS ?= 40
PREFIX ?=

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: demo-sheet ## the same as demo-sheet; STORE=aws-local runs it on local emulators of AWS, STORE=postgresql-local on PostgreSQL

demo-sheet: $(ready_store) ## a spreadsheet in the browser: a café's plan with its history, edited by two simulated colleagues
	$(on_store) examples/demo_sheet.py $(store)

demo-sync: $(ready_store) ## a page of movies for two browser windows, which synchronise through a local server
	$(on_store) examples/demo_sync.py $(store)

demo-catalogue: $(ready_store) ## a catalogue of real records in the browser: packages of Debian in four states, RFCs, films
	$(on_store) examples/demo_catalogue.py $(store)

demo-core: $(ready_store) ## documents, records, history and forks on one machine
	$(on_store) examples/demo_core.py $(store)

test: ready-dev ready-browser ready-postgres ## seeds of the simulation and sessions of clients, then every test and planted bug
	$(python) -m tests.simulation.simulate --seeds $(TEST_SEEDS) --seed $(COMMIT_SEED)
	@$(two_at_once) test-convergence test-convergence-servers test-branches test-retries test-tampering
	$(python) -m pytest -q $(in_parallel)

coverage: ready-dev ## measure the branch coverage of the quick tests; fails below the minimum of pyproject.toml
	$(recorded) $(python) -m pytest -q $(in_parallel) --quick --ignore tests/simulation --cov --cov-branch --cov-report=term

test-convergence:
	$(python) -m tests.client.convergence --sessions 180 --seed $(COMMIT_SEED)

test-convergence-servers:
	$(python) -m tests.client.convergence --sessions 20 --seed $(COMMIT_SEED) --servers 3

test-branches:
	$(python) -m tests.branches --sessions 20 --seed $(COMMIT_SEED)

test-retries:
	$(python) -m tests.retries --retries 10000 --seed $(COMMIT_SEED)

test-tampering:
	$(python) -m tests.tampering --alterations 1000 --seed $(COMMIT_SEED)

test-quick: ready-dev ## for use while you edit: 500 seeds, and the tests that are not slow and need no emulator, PostgreSQL or browser
	$(python) -m tests.simulation.simulate --seeds $(QUICK_SEEDS) --seed $(COMMIT_SEED)
	$(python) -m pytest -q $(in_parallel) --quick

test-aws: ready-dev ## some tests on your own AWS account, for a few cents: make test-aws PREFIX=mine
	@test -n "$(PREFIX)" || { echo "PREFIX=… is needed: the names of all created resources begin with it, as in: make test-aws PREFIX=mine"; exit 2; }
	@echo "This creates and deletes about 190 tables, buckets and queues called $(PREFIX)-…. Units and requests cost a few cents."
	STRATALOG_TEST_AWS=$(PREFIX) $(python) -m pytest -q $(ON_ACCOUNT)

test-postgres: ready-dev ready-postgres ## the tests that name a store in memory, on PostgreSQL instead
	$(recorded) $(python) -m pytest -q $(in_parallel) --on-postgresql -m "not mutants" $(ON_POSTGRESQL)

check: ready-dev ## lint, format, types and import rules, and lint and types of JavaScript
	@$(two_at_once) check-types check-javascript check-style

check-style:
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	.venv/bin/lint-imports

check-types:
	$(python) -m mypy

check-javascript:
	$(python) scripts/check_javascript.py

simulate: ready-dev ## run seeds of the simulation: make simulate SEEDS=1000, or SEED=14 WORLD=index SEEDS=1
	$(python) -m tests.simulation.simulate --seeds $(SEEDS) --seed $(SEED) $(addprefix --world ,$(WORLD))

mutants: ready-dev ## check that the tests catch every planted bug; the result goes to runs.json
	$(recorded) $(python) -m pytest -q $(in_parallel) -m mutants

mutation: ready-dev ## change a statement of the library and check that a test fails, MUTATIONS times; an interrupted run resumes
	$(recorded) $(python) -m tests.mutation --sample $(MUTATIONS) --seed $(MUTATION_SEED)

removals: ready-dev ## remove the fix of each bug and check that its tests fail
	$(recorded) $(python) -m tests.removals

damage-sweep: ready-dev ## damage every kind of stored object in each way, and check that a verification names it
	$(recorded) $(python) -m tests.maintenance.damage_sweep

healthy: ready-dev ## verify the stores of 1,000 seeds of the simulation, during and after their writes: no damage may be reported
	$(recorded) $(python) -m tests.simulation.healthy --stores 1000 --seed $(COMMIT_SEED)

soak: soak-simulation soak-clients soak-histories soak-postgres soak-backups soak-sheet soak-engine soak-table soak-catalogue ## all soaks; a shorter run: make soak SEEDS=1000 SESSIONS=100 HISTORIES=1

soak-simulation: ready-dev ## many seeds of the simulation; the results of all soaks go to runs.json
	$(recorded) $(python) -m tests.simulation.simulate --seeds $(SEEDS) --seed $(FRESH_SEED)

soak-clients: ready-dev ## many sessions of clients
	$(recorded) $(python) -m tests.client.convergence --sessions $(SESSIONS) --seed $(FRESH_SEED)
	$(recorded) $(python) -m tests.client.convergence --sessions 200 --seed $(FRESH_SEED) --servers 3
	$(recorded) $(python) -m tests.branches --sessions 500 --seed $(FRESH_SEED)

soak-histories: ready-dev ## histories of killed processes on AWS's emulators
	$(recorded) $(python) -m tests.cloud.histories --histories $(HISTORIES) --records 6000 --processes 8 --seed $(FRESH_SEED)

soak-postgres: ready-dev ready-postgres ## histories of killed processes on PostgreSQL: fifty restarts of the server, twenty failovers to a standby
	$(recorded) $(python) -m tests.postgres.restarts --records 6000 --processes 5 --restarts 50 --seed $(FRESH_SEED)
	$(recorded) $(python) -m tests.postgres.failover --records 3000 --processes 4 --failovers 20 --seed $(FRESH_SEED)

soak-backups: ready-dev ## back up stores during writes, restore and compare them; also on AWS's emulators
	$(recorded) $(python) -m tests.backups.drill --rounds $(ROUNDS) --seed $(FRESH_SEED)
	$(recorded) $(python) -m stratalog.testing.aws_local $(python) -m tests.backups.drill --aws --rounds 2 --seconds 30 --seed $(FRESH_SEED)

soak-sheet: ready-dev ## sessions of spreadsheets with real engines: all must agree, and no text may be lost or in another cell
	$(recorded) $(python) -m apps.sheet.tests.convergence --runs $(SESSIONS) --seed $(FRESH_SEED)

soak-engine: ready-dev ## sessions of spreadsheets on a server whose engines are killed
	$(recorded) $(python) -m apps.sheet.tests.engine_kills --sessions 200 --kills 50 --seed $(FRESH_SEED)

soak-table: ready-dev ## a large table with killed processes
	$(recorded) $(python) -m apps.table.tests.soak --rows $(ROWS) --processes 4 --kills $(KILLS) --seed $(FRESH_SEED)

soak-catalogue: ready-dev ## a large catalogue whose processes are killed while they ingest records
	$(recorded) $(python) -m apps.catalogue.tests.soak --records $(RECORDS) --processes 4 --kills $(KILLS) --pause 5 --seed $(FRESH_SEED)

hostile: ready-dev ## attack a server for five minutes; honest callers must not notice. The server has one core, the callers the other
	$(recorded) $(python) -m tests.hostile --seconds 300 --connections 200

endurance: ready-dev ## a million requests under a thousand live connections: memory, descriptors and p99 must stay flat
	$(recorded) $(python) -m tests.hostile.endurance --requests 1000000 --connections 1000

corpus: ready-dev ready-office ## 1,601 workbooks of other programs: imported, compared with another reader, exported, opened by LibreOffice
	$(recorded) $(python) -m apps.sheet.tests.corpus --json corpus.jsonl --exports corpus-exports

wheels: ready-dev ## install each application alone from wheels, and run its tests against the installation
	$(recorded) $(python) scripts/try_wheels.py

record: ready-dev ## move the results in runs.json to the table of docs/runs.md
	$(python) scripts/record_run.py table --json $(RUNS_JSON)

bench: ready-dev ## benchmarks, figures to bench.json
	$(python) -m bench --json $(BENCH_JSON)

bench-matrix: ready-dev ## tails, large documents and long logs, on the disk and in memory; figures to bench-matrix.json
	$(python) -m bench.matrix --json $(BENCH_MATRIX_JSON)

bench-peers: ready-dev ready-postgres ## Stratalog compared with eventsourcing, UmaDB and prollytree at the same work
	$(python) -m bench.peers

docs: ready-dev ## build the documentation site into build/site, after checking every link, file and snippet that the pages name
	$(python) -m pytest -q tests/test_docs.py tests/test_readme.py tests/test_snippets.py
	$(python) -m scripts.website build/site
	@echo "open build/site/index.html"

clean: ## remove .venv and the output of the other targets, except the stores of the demos in data
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov
	rm -rf build dist src/*.egg-info apps/*/build apps/*/src/*.egg-info tests/e2e/*/node_modules apps/*/tests/e2e/node_modules scripts/javascript/node_modules $(BENCH_JSON) $(BENCH_MATRIX_JSON) $(RUNS_JSON) mutation.jsonl corpus.jsonl corpus-exports
	find src apps tests bench examples scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

ready-demo:
	@scripts/bootstrap demo

ready-dev:
	@scripts/bootstrap dev

ready-browser:
	@scripts/bootstrap browser

ready-postgres:
	@scripts/bootstrap postgres

ready-office:
	@scripts/bootstrap office
