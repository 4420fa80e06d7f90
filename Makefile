# Two commands do all set-up: `make demo` and `make test`. The environment lives in .venv and is rebuilt when
# pyproject.toml changes or another Python is asked for. Python: the newest from 3.11 to 3.14 that can make
# environments, or what PYTHON says. Java: the machine's own if it is 17 or newer, else a wheel that comes along.
IS_FIT := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for python in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	$$python -c '$(IS_FIT)' >/dev/null 2>&1 && { command -v $$python; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ORACLES := tests/answer/test_oracle.py tests/answer/test_join_oracle.py tests/answer/test_mixed_oracle.py \
	tests/answer/test_wide_oracle.py tests/answer/test_finish_sweep.py tests/answer/test_table_oracle.py
# Tests of one file stay together: some count what the others compared. Who runs what is said in tests/conftest.py.
SIDE_BY_SIDE := --dist loadfile -n

# Whether somebody asked for a Python that the environment is not of.
VERSION := import sys; print(*sys.version_info[:2])
ifneq ($(filter command environment,$(firstword $(origin PYTHON))),)
ifneq ($(shell $(PYTHON) -c '$(VERSION)' 2>&1),$(shell $(BIN)/python -c '$(VERSION)' 2>&1))
OTHER := other-python
endif
endif

.PHONY: setup demo test quick soak lint bench clean other-python

setup: $(STAMP)

$(STAMP): pyproject.toml $(OTHER)
	@$(or $(PYTHON),false) -c '$(IS_FIT)' || { \
	echo "make: no Python from 3.11 to 3.14 with venv and pip was found; install one, or say PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON): a minute or two"
	@$(BIN)/python -c '$(IS_FIT)' 2>/dev/null && test -z "$(OTHER)" || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[java,testing,dev,bench]'
	touch $@

demo: $(STAMP)
	$(BIN)/weir demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Linters run while kernels are compiled. Tests that kill processes or set up machines mostly wait: two cores have work
# for three workers.
test: $(STAMP)
	@$(MAKE) --no-print-directory lint > .waiting.log 2>&1 & linted=$$!; \
	$(BIN)/python -m weir.index.warm; \
	wait $$linted; clean=$$?; cat .waiting.log; rm -f .waiting.log; exit $$clean
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) 3 -m "not soak"

# Whether a change is right: all tests that are short and need no Spark; linters run beside them, and report at the end.
quick: $(STAMP)
	@$(MAKE) --no-print-directory lint > .waiting.log 2>&1 & waiting=$$!; \
	$(BIN)/python -m weir.index.warm; \
	$(BIN)/python -m pytest -q $(SIDE_BY_SIDE) 2 -m "not (crash or machine or soak or spark or slow)"; rest=$$?; \
	wait $$waiting; waited=$$?; cat .waiting.log; rm -f .waiting.log; exit $$((rest + waited))

soak: $(STAMP)
	@echo "100,000 comparisons with the oracle for selections, for joins, for all forms mixed and for finishes, 50,000 for"
	@echo "many attributes and for tables, in two halves, then Spark"
	WEIR_SOAK=0/2 $(BIN)/python -m pytest -q -s $(ORACLES) -k "equal_the_oracle or enough" & first=$$!; \
	WEIR_SOAK=1/2 $(BIN)/python -m pytest -q -s $(ORACLES) -k "equal_the_oracle or enough" && wait $$first
	WEIR_SOAK=0/1 $(BIN)/python -m pytest -q tests/spark/test_oracle.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[stores]'
	$(BIN)/python -m pytest -q -m soak

bench: $(STAMP)
	$(BIN)/weir bench

clean:
	rm -rf $(VENV) build dist bench-results demo-data
