# make demo    a small real site behind Hedgerow, crawlers against it; installs only what it uses
# make setup   everything that is needed, into .venv and by apt-get (as root)
# make quick   unit tests without servers, reports, crawls and training
# make test    the tests, real servers, crawlers and browser included (make units, make test-real: one half of them)
# make test-spark   those on a real Spark cluster: pyspark and a Java runtime are half a gigabyte more
# make coverage     how much of the code the units reach: to look costs as much again as the tests themselves
# make test-apps    frameworks and applications, each with and without Hedgerow: installs and builds 3 GB in build/apps;
#              APPS_MODE=opaque make test-apps in another mode
# make test-suites  Starlette's and httpbin's own tests, around Hedgerow
# make check   ruff, mypy, import-linter
# make handbook     the documentation as a web site, in build/handbook; make check-docs: its links, commands and language
# make test-wheel   the built wheel in clean environments, with the lowest and the current versions
# make deb   a Debian package in build/deb; make test-deb installs it here, serves a page and purges it (as root)
# make test-container   builds the container on Debian's packages and runs it (as root, some minutes)
# make fuzz    mutated input for everything that strangers write: SECONDS=60 or EXECUTIONS=1000000 for each target,
#              TARGETS="page request" for some of them, RESUME=1 goes on where earlier runs ended
# make faults  processes killed, disks full, clocks moved, databases gone, under load: ROUNDS=4 processes are killed
# make soak    full caches, then steady traffic for half an hour (MINUTES=30): memory, descriptors, threads, lost rows
# make sbom    what an installation consists of, as CycloneDX, in build/sbom.json
# make audit   known weaknesses of what is installed (needs the network)
# make mutants   how many small faults the tests would notice, in a sample of them
# make bench   the benchmarks, each next to a reference in the same run
# make arena   crawlers of many makes at two sites, behind each protection; goes on where it was stopped, into docs/arena.*;
#              make arena SMALL=1 runs a few cells, make arena ANEW=1 forgets earlier ones
# make evaluate   how good the models are: every page of docs/evaluation; about an hour

PYTHON ?= python3
BIN := .venv/bin
# Tests start many Python processes. They share compiled code, even where the environment says not to write it.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup packages demo test test-installed test-real test-units compiled units quick doctests coverage check bench arena evaluate format clean test-spark test-apps test-suites test-wheel mutants handbook check-docs fuzz faults soak sbom audit deb test-deb test-container

setup:
	@$(MAKE) --no-print-directory -j2 .venv/.ready packages

packages:
	@tools/packages

.venv/.ready: requirements.txt pyproject.toml tools/environment
	@PYTHON=$(PYTHON) tools/environment

.venv/.demo: requirements.txt pyproject.toml tools/environment
	@PYTHON=$(PYTHON) tools/environment demo

# Only what the demo uses: no browser, no databases, no other web servers.
demo: .venv/.demo
	@tools/packages demo
	@$(BIN)/hedgerow demo

deb: .venv/.ready
	@tools/build-deb

test-deb:
	@tools/test-deb

test-container:
	@tools/test-container

check: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file bench/mypy.ini
	$(BIN)/lint-imports

# Real servers, crawlers and browsers mostly wait. What computes runs beside them, yields to them, and shows what it
# said when it is through. Databases are asked by the tests' own processes, and count for coverage.
DATABASES := tests/real/test_redis.py tests/real/test_postgresql.py
UNITS := $(DATABASES) $(filter-out tests/real/ tests/__pycache__/,$(wildcard tests/*/)) $(wildcard tests/test_*.py)

test: setup
	@$(MAKE) --no-print-directory -j2 test-real test-installed

# The units end first: the wheel follows them.
test-installed:
	@$(MAKE) --no-print-directory -j1 test-units
	@$(MAKE) --no-print-directory -j1 test-wheel

test-real: .venv/.ready
	$(BIN)/pytest tests/real $(DATABASES:%=--ignore=%) --ignore=tests/real/test_spark.py \
		--ignore=tests/real/frameworks/test_heavy.py -m "not heavy" -n 2 --durations=20

test-units: .venv/.ready
	@nice -n 2 $(MAKE) -j1 --no-print-directory compiled check doctests units >.units.log 2>&1; status=$$?; cat .units.log; exit $$status

# Compile the functions for large logs once, or every process that reads a large log would compile them. A log counts as
# large from 4 MB and 25,000 lines on; this one has 5 MB and 60,000 lines.
compiled: .venv/.ready
	@awk 'BEGIN { for (i = 0; i < 60000; i++) printf "192.0.2.%d - - [01/Jan/2026:%02d:%02d:00 +0000] \"GET /%d HTTP/1.1\" 200 1 \"-\" \"-\"\n", \
	  i % 250, i / 2500, i / 42 % 60, i }' | $(BIN)/hedgerow report - >/dev/null

units: .venv/.ready
	$(BIN)/pytest $(UNITS) -n 2 --durations=20

# Only pyspark's users have what this module imports.
doctests: .venv/.ready
	$(BIN)/pytest --doctest-modules src/hedgerow --ignore=src/hedgerow/report/tables/spark_store.py -q

# Whatever takes long, or starts processes, is left to `make test`.
SLOW := tests/examples/ tests/golden/ tests/lab/ tests/report/ tests/real/ tests/__pycache__/
PROCESSES := $(addprefix tests/cli/test_,cli.py processes.py report.py serve.py watch.py) tests/detectors/test_toy_detector.py
quick: .venv/.ready
	$(BIN)/pytest $(filter-out $(SLOW),$(wildcard tests/*/)) $(wildcard tests/test_*.py) \
		$(PROCESSES:%=--ignore=%) -m "not slow" -n 2 -q --hypothesis-profile quick

coverage: setup
	$(BIN)/pytest $(UNITS) -n 2 --cov --cov-report=
	$(BIN)/coverage report --skip-covered --fail-under=85

test-spark: setup
	@tools/packages java
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements-spark.txt
	$(BIN)/pytest tests/real/test_spark.py tests/report/tables/test_spark_store.py --durations=5

# One after the other: each of them is a build and two servers.
test-apps: setup
	@tools/packages apps
	$(BIN)/pytest tests/real/frameworks tests/real/apps --durations=20

test-suites: .venv/.ready
	@$(BIN)/python tools/test-suites

test-wheel: .venv/.ready
	@$(BIN)/python tools/test-wheel

SECONDS ?= $(if $(EXECUTIONS),0,60)
fuzz: .venv/.ready
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements-fuzz.txt
	@PYTHONPATH=tests $(BIN)/python -m fuzz $(TARGETS) --seconds $(SECONDS) --executions $(or $(EXECUTIONS),0) $(if $(RESUME),--resume)

# Those that start processes first; the others are about files and clocks.
faults: setup
	$(BIN)/pytest tests/real/test_faults.py tests/real/test_several_gates.py tests/real/test_redis.py \
		tests/real/test_postgresql.py tests/real/test_upstream.py tests/attacks/test_faults.py tests/ledger -n 2 --durations=10

soak: setup
	@MINUTES=$(or $(MINUTES),30) $(BIN)/python -m bench soak

# An environment with what a deployment installs and nothing else, and beside it the programs that look at it.
build/deployment/.ready: deploy/requirements.txt pyproject.toml
	@rm -rf build/deployment && $(PYTHON) -m venv build/deployment
	@build/deployment/bin/pip install --quiet --disable-pip-version-check --require-hashes -r deploy/requirements.txt
	@build/deployment/bin/pip install --quiet --disable-pip-version-check --no-deps .
	@touch $@

build/supply/.ready: requirements-supply.txt
	@$(PYTHON) -m venv build/supply
	@build/supply/bin/pip install --quiet --disable-pip-version-check -r requirements-supply.txt
	@touch $@

sbom: build/deployment/.ready build/supply/.ready
	@build/supply/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file build/sbom.json build/deployment/bin/python
	@echo build/sbom.json

audit: build/deployment/.ready build/supply/.ready
	@build/supply/bin/pip-audit --disable-pip --require-hashes -r deploy/requirements.txt

mutants: .venv/.ready
	@$(BIN)/python tools/mutants

handbook: .venv/.ready
	$(BIN)/sphinx-build -q -W --keep-going docs build/handbook
	@echo "open build/handbook/index.html"

check-docs: .venv/.ready
	$(BIN)/pytest tests/docs -q

bench: setup
	@$(BIN)/python -m bench

# The small form needs only what the tests need, and leaves docs/ as it is.
ifdef SMALL
arena: setup
	@$(BIN)/python -m bench.arena --small --anew --cells build/arena-small/cells.jsonl --docs build/arena-small
else
arena: setup
	@PYTHON=$(PYTHON) tools/arena
	@$(BIN)/python -m bench.arena $(if $(ANEW),--anew)
endif

# Every page of docs/evaluation. Those of real logs need the data beside the checkout, or where HEDGEROW_DATA points.
evaluate: setup
	@$(BIN)/python -m evaluate
	@status=0; for page in logs report_labels opinions pointer replayed; do \
		echo "evaluate.$$page" >&2; $(BIN)/python -m evaluate.$$page >/dev/null || status=1; done; exit $$status

format: .venv/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* .mutants .units.log build dist
