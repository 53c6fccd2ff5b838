# `make` alone prints what there is. Every target installs what it needs into .venv first (see scripts/bootstrap).
.DEFAULT_GOAL := help
.PHONY: help demo demo-catalogue demo-core demo-sheet demo-sync simulate test test-quick test-aws check mutants bench docs clean
.PHONY: mutation removals damage-sweep healthy hostile endurance corpus wheels soak soak-simulation soak-clients soak-histories soak-backups soak-sheet soak-engine soak-table soak-catalogue record ready-demo ready-dev ready-browser ready-office

python := .venv/bin/python
# A demo keeps its store in a folder; with STORE=aws-local on DynamoDB, SQS and S3, played on this machine until it ends.
# What AWS needs comes with the tools of development.
STORE ?=
ready_store := $(if $(filter aws%,$(STORE)),ready-dev,ready-demo)
on_store := $(if $(filter aws-local,$(STORE)),$(python) -m stratalog.testing.aws_local) $(python)
store := $(if $(filter aws-local,$(STORE)),aws://stratalog,$(STORE))
BENCH_JSON ?= bench.json
RUNS_JSON ?= runs.json
SEEDS ?= 200000
SESSIONS ?= 1800
HISTORIES ?= 10
ROUNDS ?= 20
TEST_SEEDS ?= 5000
QUICK_SEEDS ?= 500
# Fresh with every commit, and the same for everyone who tests that commit; a soak's are fresh every time.
COMMIT_SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1))
FRESH_SEED ?= $(shell date +%s)
SEED ?= $(FRESH_SEED)
MUTATIONS ?= 300
MUTATION_SEED ?= 1
WORLD ?=
WORKERS ?= auto
# A worker begins with neighbours, which share what a module starts, and takes over what another has not begun.
in_parallel := -n $(WORKERS) --dist worksteal
# Adds a line to $(RUNS_JSON): commit, command, seconds, result. The target is the name of the rule.
recorded = $(python) scripts/record_run.py run --json $(RUNS_JSON) --target $@ --
# What is tested on an account is asked of AWS as users ask it: the contract of the index, the command line, a copy.
ON_ACCOUNT := tests/cloud/test_dynamodb.py tests/cloud/test_command_line.py tests/cloud/test_copying.py
ROWS ?= 5000000
RECORDS ?= 1000000
KILLS ?= 40
PREFIX ?=

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: demo-sheet ## show the newest whole: now the same as demo-sheet; STORE=aws-local shows it on AWS's services, played here

demo-sheet: $(ready_store) ## a café's plan in the browser, written by four people in three weeks, and two simulated colleagues in it
	$(on_store) examples/demo_sheet.py $(store)

demo-sync: $(ready_store) ## two browser windows that agree, on a server of your own
	$(on_store) examples/demo_sync.py $(store)

demo-catalogue: $(ready_store) ## a catalogue of real records in the browser: packages of Debian in four states, RFCs, films
	$(on_store) examples/demo_catalogue.py $(store)

demo-core: $(ready_store) ## documents, records, history and forks on one machine
	$(on_store) examples/demo_core.py $(store)

test: ready-dev ready-browser ## every test and a third of the planted bugs, after fresh seeds of the simulation and of clients; quick tests with branch coverage
	$(python) -m tests.simulation.simulate --seeds $(TEST_SEEDS) --seed $(COMMIT_SEED)
	$(python) -m tests.retries --retries 10000 --seed $(COMMIT_SEED)
	$(python) -m tests.tampering --alterations 1000 --seed $(COMMIT_SEED)
	$(python) -m tests.client.convergence --sessions 180 --seed $(COMMIT_SEED)
	$(python) -m tests.client.convergence --sessions 20 --seed $(COMMIT_SEED) --servers 3
	$(python) -m tests.branches --sessions 20 --seed $(COMMIT_SEED)
	$(python) -m pytest -q $(in_parallel) --sample-mutants $(COMMIT_SEED) tests/simulation
	$(python) -m pytest -q $(in_parallel) --sample-mutants $(COMMIT_SEED) --ignore tests/simulation --cov --cov-branch --cov-report=term

test-quick: ready-dev ## while you work: tests of one process, without emulators, browser, kills and coverage, and 500 seeds
	$(python) -m tests.simulation.simulate --seeds $(QUICK_SEEDS) --seed $(COMMIT_SEED)
	$(python) -m pytest -q $(in_parallel) --quick

test-aws: ready-dev ## contract, command line and copy on an account of yours, for a few cents: make test-aws PREFIX=mine
	@test -n "$(PREFIX)" || { echo "PREFIX=… begins the names of all that is made and removed, as in: make test-aws PREFIX=mine"; exit 2; }
	@echo "About 160 tables, buckets and queues called $(PREFIX)-… are made and removed. Units and requests come to a few cents."
	STRATALOG_TEST_AWS=$(PREFIX) $(python) -m pytest -q $(ON_ACCOUNT)

check: ready-dev ## lint, format, types and import arrows, and lint and types of JavaScript
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy
	.venv/bin/lint-imports
	$(python) scripts/check_javascript.py

simulate: ready-dev ## seeds of the simulation: make simulate SEEDS=1000, or SEED=14 WORLD=index SEEDS=1
	$(python) -m tests.simulation.simulate --seeds $(SEEDS) --seed $(SEED) $(addprefix --world ,$(WORLD))

mutants: ready-dev ## every planted bug; the result goes to runs.json
	$(recorded) $(python) -m pytest -q $(in_parallel) -m mutants

mutation: ready-dev ## change a line of the library and see whether a test notices, MUTATIONS times; goes on where it stopped
	$(recorded) $(python) -m tests.mutation --sample $(MUTATIONS) --seed $(MUTATION_SEED)

removals: ready-dev ## take the fix of each bug out and see its tests fail
	$(recorded) $(python) -m tests.removals

damage-sweep: ready-dev ## damage every stored object in each way, and see a verification name it
	$(recorded) $(python) -m tests.maintenance.damage_sweep

healthy: ready-dev ## inspect what 1,000 seeds of the simulation leave, and while they write: nothing may be named
	$(recorded) $(python) -m tests.simulation.healthy --stores 1000 --seed $(COMMIT_SEED)

soak: soak-simulation soak-clients soak-histories soak-backups soak-sheet soak-engine soak-table soak-catalogue ## all soaks: make soak SEEDS=1000 SESSIONS=100 HISTORIES=1 for less

soak-simulation: ready-dev ## many seeds of the simulation; the result goes to runs.json, as do those of all soaks
	$(recorded) $(python) -m tests.simulation.simulate --seeds $(SEEDS) --seed $(FRESH_SEED)

soak-clients: ready-dev ## many sessions of clients
	$(recorded) $(python) -m tests.client.convergence --sessions $(SESSIONS) --seed $(FRESH_SEED)
	$(recorded) $(python) -m tests.client.convergence --sessions 200 --seed $(FRESH_SEED) --servers 3
	$(recorded) $(python) -m tests.branches --sessions 500 --seed $(FRESH_SEED)

soak-histories: ready-dev ## histories of killed processes on AWS's emulators
	$(recorded) $(python) -m tests.cloud.histories --histories $(HISTORIES) --records 6000 --processes 8 --seed $(FRESH_SEED)

soak-backups: ready-dev ## backups of stores that are written to, restored and compared; also on AWS's emulators
	$(recorded) $(python) -m tests.backups.drill --rounds $(ROUNDS) --seed $(FRESH_SEED)
	$(recorded) $(python) -m stratalog.testing.aws_local $(python) -m tests.backups.drill --aws --rounds 2 --seconds 30 --seed $(FRESH_SEED)

soak-sheet: ready-dev ## sessions of spreadsheets on real engines: all agree, and no text is lost or in another cell
	$(recorded) $(python) -m apps.sheet.tests.convergence --runs $(SESSIONS) --seed $(FRESH_SEED)

soak-engine: ready-dev ## sessions of spreadsheets on a server whose engines are killed
	$(recorded) $(python) -m apps.sheet.tests.engine_kills --sessions 200 --kills 50 --seed $(FRESH_SEED)

soak-table: ready-dev ## a large table with killed processes
	$(recorded) $(python) -m apps.table.tests.soak --rows $(ROWS) --processes 4 --kills $(KILLS) --seed $(FRESH_SEED)

soak-catalogue: ready-dev ## a large catalogue whose processes are killed while they take records in
	$(recorded) $(python) -m apps.catalogue.tests.soak --records $(RECORDS) --processes 4 --kills $(KILLS) --pause 5 --seed $(FRESH_SEED)

hostile: ready-dev ## five minutes of attacks beside honest callers, who must not notice: server on one core, callers on the other
	$(recorded) $(python) -m tests.hostile --seconds 300 --connections 200

endurance: ready-dev ## a million requests under a thousand live connections: memory, descriptors and p99 stay flat
	$(recorded) $(python) -m tests.hostile.endurance --requests 1000000 --connections 1000

corpus: ready-dev ready-office ## 1,601 workbooks of other programs: imported, compared with another reader, exported, opened by LibreOffice
	$(recorded) $(python) -m apps.sheet.tests.corpus --json corpus.jsonl --exports corpus-exports

wheels: ready-dev ## install each application by itself from wheels, and run its tests against what is installed
	$(recorded) $(python) scripts/try_wheels.py

record: ready-dev ## move the results in runs.json to the table of docs/runs.md
	$(python) scripts/record_run.py table --json $(RUNS_JSON)

bench: ready-dev ## benchmarks, figures to bench.json
	$(python) -m bench --json $(BENCH_JSON)

docs: ready-dev ## build the documentation site into build/site, after checking every link, file and snippet that the pages name
	$(python) -m pytest -q tests/test_docs.py tests/test_readme.py tests/test_snippets.py
	$(python) -m scripts.website build/site
	@echo "open build/site/index.html"

clean: ## remove everything that the other targets made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov
	rm -rf build dist src/*.egg-info apps/*/build apps/*/src/*.egg-info tests/e2e/*/node_modules apps/*/tests/e2e/node_modules scripts/javascript/node_modules $(BENCH_JSON) $(RUNS_JSON)
	find src apps tests bench examples scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

ready-demo:
	@scripts/bootstrap demo

ready-dev:
	@scripts/bootstrap dev

ready-browser:
	@scripts/bootstrap browser

ready-office:
	@scripts/bootstrap office
