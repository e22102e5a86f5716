# make setup   everything that is needed, into .venv and by apt-get (as root)
# make demo    a small real site behind Hedgerow, crawlers against it
# make test    the tests, real servers, crawlers and browser included
# make check   ruff, mypy, import-linter
# make bench   the benchmarks, each next to a reference in the same run
# make evaluate   how good the models are, into docs/evaluation/

PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test check bench evaluate format clean

setup: .venv/.ready
	@tools/packages

.venv/.ready: requirements.txt pyproject.toml tools/environment
	@PYTHON=$(PYTHON) tools/environment

demo: setup
	@$(BIN)/hedgerow demo

check: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What asks no clock and opens no port runs side by side; real servers need the machine for themselves. Databases are
# asked by these very processes, and so count for coverage.
DATABASES := tests/real/test_redis.py tests/real/test_postgresql.py

test: setup check
	$(BIN)/coverage erase
	$(BIN)/pytest tests --ignore=tests/real --ignore=tests/adapters -n 2 --durations=10 --cov --cov-report=
	$(BIN)/pytest tests/adapters $(DATABASES) --cov --cov-append --cov-report=
	$(BIN)/pytest tests/real $(DATABASES:%=--ignore=%) --durations=20
	$(BIN)/coverage report --skip-covered --fail-under=85

bench: setup
	@$(BIN)/python -m bench

evaluate: setup
	@$(BIN)/python -m evaluate

format: .venv/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build dist
