# SPDX-License-Identifier: Apache-2.0
# make demo   sets everything up and runs the main job     make test   ... and passes the tests
# make check  test + lint                                  make p4     recompiles p4src (needs p4c)
# make conformance P4C=path   p4c's own packet tests, from a checkout of p4c, on BMv2 and our engines
# make differential P4C=path  random entries and frames through BMv2 and our engines (RANDOM=options)

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed
DEMO   ?=
PYTEST ?=
P4C    ?=
STF    ?=
RANDOM ?=

.PHONY: demo test lint check p4 bench conformance differential clean

demo: $(STAMP)
	$(BIN)/incmoe demo $(DEMO)

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: test lint

p4: $(STAMP)
	$(BIN)/python -m p4src.compile

conformance: $(STAMP)
	@test -n "$(P4C)" || { echo "say where p4c's sources are: make conformance P4C=path"; exit 2; }
	$(BIN)/python -m tests.softswitch.conformance $(P4C) $(STF)

differential: $(STAMP)
	$(BIN)/python -m tests.softswitch.against_bmv2 $(P4C) $(RANDOM)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "incmoe needs Python 3.11 or newer; $(PYTHON) is" `$(PYTHON) -V` "(set PYTHON=...)"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "no virtual environment: install your system's python3-venv package"; exit 2; }
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[agent,control,switch,dev]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
