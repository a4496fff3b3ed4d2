# One command for each thing a developer does; `make` alone lists them.
#
# Every target installs its requirements, once: Python packages into .venv; Asterisk, the MCP
# servers, promtool, Helm, Kamailio, Chromium and the unpacked images of the tests into the cache.
# Settings, on the command line or in the environment:
#   PYTHON=python3.12       the interpreter of .venv
#   CORDBOARD_CACHE=DIR     the cache folder (default .cache; may be shared by checkouts)
#   CORDBOARD_ASTERISK=FILE the asterisk program to use, instead of looking for one
#   CORDBOARD_PROMTOOL=FILE the promtool program to use, in the same way
#   CORDBOARD_CHROMIUM=FILE the Chromium to use, in the same way
#   CORDBOARD_HELM=FILE     the Helm to use, in the same way
#   PYTEST_ARGS="-k ari"    more arguments for `make test`
#   ORDER=random            order of the tests: `random`, `listed`, or the number of an earlier order
#   PROCESSES=2             number of processes for the tests (see tests/conftest.py)
#   PYTHONS="3.12 3.13"     versions for `make test-pythons` (default: 3.11 to 3.14)
#   PYTHONS_MISSING=fail    a missing version is a failure, not only reported
#   RESTAURANT=--engine     arguments for `make restaurant`
#   BENCH="turns --json F"  benchmarks to run, and their arguments (default: all)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

CORDBOARD_CACHE ?= .cache
PYTEST_ARGS ?=
PROCESSES ?= 2
ORDER ?= random
export PYTHON CORDBOARD_CACHE PROCESSES

VENV := .venv
BIN := $(VENV)/bin
CONFIG ?= config/ai-agent.yaml
LOCKS := $(filter-out requirements/docs%.txt requirements/language-model.txt requirements/helm.txt,$(wildcard requirements/*.txt))

# In .venv and not in the cache: they record the contents of .venv and vanish with it.
RUN_READY := $(VENV)/.ready-run
ALL_READY := $(VENV)/.ready-all
# A checkout with the test packages keeps them when a lock changes.
NEEDS_RUN := $(if $(wildcard $(ALL_READY)),$(ALL_READY),$(RUN_READY))

# Sets the asterisk program, for the commands that place calls through a real one.
WITH_ASTERISK := CORDBOARD_ASTERISK="$$(scripts/install-asterisk --print)"
# Sets the folder of other projects' MCP servers, for the tests that talk to them.
WITH_MCP_SERVERS := CORDBOARD_MCP_SERVERS="$$(scripts/install-mcp-servers --print)"

.PHONY: help
help: ## list these commands
	@echo "make ..."
	@sed -nE 's/^([a-z-]+):.*## (.*)$$/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

.PHONY: demo
demo: $(NEEDS_RUN) ## start the engine, place one spoken call to it, show the conversation
	@$(BIN)/cordboard demo

.PHONY: demo-asterisk
demo-asterisk: $(NEEDS_RUN) asterisk ## the same call by SIP, through a real Asterisk
	@$(WITH_ASTERISK) $(BIN)/cordboard demo --via sip

.PHONY: run
run: $(NEEDS_RUN) ## run the engine with CONFIG (default config/ai-agent.yaml) until Ctrl-C
	@$(BIN)/cordboard run --config $(CONFIG)

.PHONY: language-model
language-model: $(ALL_READY) ## fetch a language model (1.1 GB, once) for config/local_model.yaml and `make test-llm`
	@scripts/install-language-model

.PHONY: restaurant
restaurant: $(ALL_READY) ## run the restaurant of examples/ (RESTAURANT=--engine: also the engine)
	@PYTHONPATH=examples/restaurant $(BIN)/python -m restaurant $(RESTAURANT)

.PHONY: test
test: $(ALL_READY) asterisk mcp-servers admin-ui chromium images promtool helm kamailio ## run every test, real Asterisk and real voices included
	@$(WITH_ASTERISK) $(WITH_MCP_SERVERS) $(BIN)/python -m pytest \
	  --numprocesses=$(PROCESSES) --order=$(ORDER) $(PYTEST_ARGS)

.PHONY: test-fast
test-fast: $(ALL_READY) ## run the tests that need no Asterisk, no models and no real time: a minute at most
	@$(BIN)/python -m pytest --fast --numprocesses=$(PROCESSES) --order=$(ORDER) $(PYTEST_ARGS)

.PHONY: test-llm
test-llm: language-model asterisk ## run the tests of tests/llm with a real language model; no part of `make test`
	@$(WITH_ASTERISK) CORDBOARD_LANGUAGE_MODEL="$$(scripts/install-language-model --print)" \
	  $(BIN)/python -m pytest tests/llm -v --order=listed $(PYTEST_ARGS)

.PHONY: test-pythons
test-pythons: ## run the fast tests with every Python version on this machine, and print a table
	@PYTHONS="$(PYTHONS)" PYTHONS_MISSING="$(PYTHONS_MISSING)" scripts/test-pythons --order=$(ORDER) $(PYTEST_ARGS)

.PHONY: lint
lint: $(ALL_READY) ## check style, formatting, types and the import rules
	@failed=0; said=$$(mktemp); \
	"$(BIN)/mypy" --strict >"$$said" 2>&1 & mypy=$$!; \
	step() { echo "lint: $$*"; "$(BIN)/$$@" || failed=1; }; \
	step ruff check; \
	step ruff format --check; \
	step lint-imports --no-cache --no-logo; \
	echo "lint: admin-ui"; scripts/install-admin-ui --lint || failed=1; \
	echo "lint: mypy --strict"; wait $$mypy || failed=1; cat "$$said"; rm "$$said"; \
	exit $$failed

.PHONY: bench
bench: $(ALL_READY) asterisk ## measure everything (or BENCH="turns load"), and print the figures
	@$(WITH_ASTERISK) $(BIN)/python -m bench $(BENCH)

.PHONY: matrix
matrix: $(ALL_READY) asterisk ## try every behaviour with every provider, and write the table of docs/providers.md
	@failed=0; \
	$(WITH_ASTERISK) CORDBOARD_MATRIX=$(CURDIR)/docs/provider-matrix.json \
	  $(BIN)/python -m pytest tests/whole_calls/test_providers.py $(PYTEST_ARGS) || failed=1; \
	$(BIN)/python scripts/provider_matrix; \
	exit $$failed

.PHONY: docs
docs: ## build the documentation as a site into build/docs; broken links fail
	@scripts/docs

.PHONY: setup
setup: $(ALL_READY) asterisk mcp-servers admin-ui chromium images promtool helm kamailio ## only set up; run nothing

.PHONY: asterisk
asterisk:
	@scripts/install-asterisk

.PHONY: mcp-servers
mcp-servers: $(ALL_READY)
	@scripts/install-mcp-servers

.PHONY: admin-ui
admin-ui: ## build the page of the admin port into src/cordboard/admin/assets
	@scripts/install-admin-ui --build
	@echo "The interface is built; make demo and make run show it."

.PHONY: admin-pictures
admin-pictures: $(ALL_READY) asterisk admin-ui chromium ## take the pictures of the interface in docs/pictures/admin
	@mkdir -p docs/pictures/admin
	@CORDBOARD_PICTURES=$(CURDIR)/docs/pictures/admin $(WITH_ASTERISK) \
	  $(BIN)/python -m pytest tests/admin_ui/test_every_page.py tests/admin_ui/test_journeys.py \
	  tests/admin_ui/test_outbound.py tests/admin_ui/test_cluster.py $(PYTEST_ARGS)

.PHONY: admin-types
admin-types: $(ALL_READY) ## write openapi.json, its page, and the TypeScript types of the admin port
	@scripts/install-admin-ui --types

.PHONY: promtool
promtool:
	@scripts/install-promtool

.PHONY: helm
helm: $(ALL_READY)
	@scripts/install-helm

.PHONY: kamailio
kamailio:
	@scripts/install-kamailio

.PHONY: chromium
chromium:
	@scripts/install-chromium

.PHONY: images
images: $(ALL_READY) ## build both images into folders for the tests, without docker
	@if missing="$$($(BIN)/python scripts/image missing)"; then \
	  $(BIN)/python scripts/image build . >/dev/null; \
	  $(BIN)/python scripts/image build docker/asterisk >/dev/null; \
	else echo "images: not built, their tests will be skipped: $$missing"; fi

.PHONY: lock
lock: ## rewrite requirements/ from pyproject.toml (needs uv)
	@scripts/lock
	@scripts/lock-mcp-servers

.PHONY: clean
clean: ## remove .venv, .cache, and every cache and build product
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_READY): pyproject.toml $(LOCKS)
	@scripts/install-python run

$(ALL_READY): pyproject.toml $(LOCKS)
	@scripts/install-python all
