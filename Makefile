# Everything sets up its own virtual environment first; nothing but Python (3.11 or later) and make is needed.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
WORKERS ?= auto
comma := ,
# Compiled once here, so that commands start fast also where PYTHONDONTWRITEBYTECODE is set.
COMPILE = $(BIN)/python -m compileall -q zeus_runtime plugins/zeus_plugins tests/support

.PHONY: demo web test site check style fix schema golden bench bench-install clean

demo: $(VENV)/.installed  ## Run the quickstart: no key, no network.
	$(BIN)/zeus run quickstart "Show me what you can do"

web: $(VENV)/.installed-dev  ## Build the page of `zeus serve`, unless it is built already.
	$(BIN)/python web/bundle.py

test: $(VENV)/.installed-dev  ## Run all tests.
	$(BIN)/python web/bundle.py
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

site: $(VENV)/.installed-dev  ## Build the static site of docs/ into build/site; a warning is an error.
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/site

check: style test  ## What every commit must pass.

style: $(VENV)/.installed-dev  ## Format, lint, types, import contracts, generated files.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zeus schema --check
	$(BIN)/python web/bundle.py --check

fix: $(VENV)/.installed-dev  ## Format, and repair what can be repaired.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(VENV)/.installed-dev  ## Write schemas/zeus.schema.json anew.
	$(BIN)/zeus schema --write

golden: $(VENV)/.installed-dev  ## Write the golden files anew; look at the difference before committing it.
	ZEUS_GOLDEN=1 $(BIN)/pytest -n $(WORKERS) --dist loadgroup

bench: $(VENV)/.installed-bench  ## Measure beside peers, and evaluate the default preset; an hour or more.
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.loop
	$(BIN)/python -m benchmarks.streamed --runtimes native,litellm,deepagents
	$(BIN)/python -m benchmarks.concurrent
	$(BIN)/python -m benchmarks.loop --steps 2000 --runs 1
	$(BIN)/python -m benchmarks.tokens
	$(BIN)/python -m zeus_runtime.testing.evals default --window 16000
	$(BIN)/python -m benchmarks.context
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.memory_quality
	$(BIN)/python -m benchmarks.memory_peers
	$(BIN)/python -m benchmarks.sandbox
	$(BIN)/python -m benchmarks.powers
	$(BIN)/python -m benchmarks.serve
	$(BIN)/python -m benchmarks.serve_load

bench-install: $(VENV)/.installed-dev  ## Measure an installation: a fresh environment, megabytes by distribution.
	$(BIN)/python -m benchmarks.install

clean:
	rm -rf $(VENV) build dist web/node_modules zeus_runtime/serving/http/bundle .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
# uv resolves in seconds what takes pip minutes; where uv cannot reach the index that pip is configured for, pip does it.
define install
	$(BIN)/pip install --quiet uv \
	  && UV_HTTP_TIMEOUT=20 $(BIN)/uv pip install --quiet --compile-bytecode --system-certs --python $(BIN)/python --editable '$(1)' \
	  || $(BIN)/pip install --quiet --editable '$(1)'
	$(COMPILE)
endef

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Zeus needs Python 3.11 or later; name one with PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(call install,.)
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(call install,.[dev])
	touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: $(VENV)/bin/python pyproject.toml
	$(call install,.[dev$(comma)bench])
	touch $@ $(VENV)/.installed $(VENV)/.installed-dev
