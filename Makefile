# Targets for developers and CI. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
# Test processes. Some wait for hosts and programs: one more than the processors of a CI machine.
WORKERS ?= 3
# The root file system of `make test-fresh`: debian-12, debian-13 or ubuntu-24.04.
ROOT ?= debian-12
# Ordered by tests/conftest.py: the longest groups first.
# Prints the slowest twenty tests and the seconds by group (tests/timings.py).
SHARED := -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations=20 --durations-min=1
# What `make versions` runs: the packages of a run, from the fleet file to the engine.
VERSIONED := tests/unit/spec tests/unit/plan tests/unit/checks tests/unit/pricing tests/unit/policy \
	tests/engine/test_main_path.py tests/e2e/test_sandbox_lifecycle.py
# Tests with imports that exist only on their hosts or in a separate environment.
UNCHECKED := tests/rack/kit/|tests/judges/checkov_driver|tests/unit/ansible/(health|slurm_cloud)
# pulumi_aws is large: without bytecode every process of a run compiles it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup up rack test test-rack test-fresh lint types-product types-tests import-contracts ansible-lint bench faults mutate versions docs readme screenshots wheel lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  \1\t/' | expand -t 12

setup: ## .venv with the locked dependencies
	@scripts/setup

up: setup ## the sandbox environment of a hybrid fleet, on the embedded engine and an emulated AWS
	@$(BIN)/gpufleet up sandbox --engine embedded --yes

rack: ## a rack in a box: 2 controllers, a login host and 4 GPU nodes as containers (needs root)
	@scripts/setup rack
	@$(BIN)/gpufleet rack up

test: ## install everything the tests need, and run them all
	@scripts/setup system
	@$(BIN)/python -m pytest $(SHARED) $(ARGS)

test-rack: ## only tests on racks in a box (needs root)
	@scripts/setup system
	@$(BIN)/python -m pytest $(SHARED) tests/rack $(ARGS)

test-fresh: ## the same in a container on a bare root (needs root); ROOT=debian-13, QUICK=1 for one test of each group
	@scripts/setup rack
	@$(BIN)/python scripts/fresh $(ROOT) $(if $(QUICK),--quick) $(ARGS)

lint: setup ## ruff, mypy strict, names that tests use, import contracts, ansible-lint production, shell syntax
	@$(BIN)/ruff check .
	@$(BIN)/ruff check --preview --select F822 . # exports of __init__.py as well
	@$(BIN)/ruff format --check .
	@bash -n scripts/setup scripts/versions .ci/run
	@$(MAKE) --no-print-directory -j --output-sync types-product types-tests import-contracts ansible-lint

types-product:
	@$(BIN)/mypy
	@MYPYPATH=ansible/roles/health_check/files $(BIN)/mypy -p health
	@MYPYPATH=ansible/roles/slurm_cloud/files $(BIN)/mypy -p cloud_nodes

types-tests:
	@$(BIN)/mypy -p tests --implicit-reexport --cache-dir .mypy_cache/tests --exclude '$(UNCHECKED)'

import-contracts:
	@$(BIN)/lint-imports --no-cache --no-logo

ansible-lint:
	@cd ansible && ../$(BIN)/ansible-lint --offline -q

bench: setup ## the figures of docs/performance.md with their peers, in one run; ARGS="--only hosts" narrows it
	@$(BIN)/python -m tests.bench $(ARGS)

faults: setup ## every fault at every call of the first up of dev and sandbox; the next up must finish it
	@$(BIN)/python -m tests.faults $(ARGS)

docs: setup ## generate instance types, reference pages, the table of packages, defaults and README tables of roles
	@$(BIN)/python -m gpufleet.catalog.shipped
	@$(BIN)/python -m gpufleet.catalog.reference >docs/reference/.new && mv docs/reference/.new docs/reference/catalog.md
	@$(BIN)/python -m gpufleet.policy.docs >docs/reference/.new && mv docs/reference/.new docs/reference/rules.md
	@$(BIN)/python -m tests.documents.rack_variables >docs/reference/.new && mv docs/reference/.new docs/reference/rack_variables.md
	@$(BIN)/python -m gpufleet.changes.fleet_file >docs/reference/.new && mv docs/reference/.new docs/reference/fleet_file.md
	@$(BIN)/python -m gpufleet.changes.reference >docs/reference/.new && mv docs/reference/.new docs/reference/changes.md
	@$(BIN)/python -m gpufleet.account.reference >docs/reference/.new && mv docs/reference/.new docs/reference/preflight.md
	@$(BIN)/python -m tests.documents.tool_formats >docs/reference/.new && mv docs/reference/.new docs/reference/tool_formats.md
	@$(BIN)/python -m tests.documents.aws_features >docs/reference/.new && mv docs/reference/.new docs/reference/aws.md
	@$(BIN)/python -m tests.documents.packages
	@$(BIN)/python -m tests.documents.roles

wheel: setup ## dist/: the wheel for `pip install gpufleet`
	@$(BIN)/uv build -q --wheel --no-build-isolation --python $(BIN)/python -o dist

screenshots: setup ## docs/images, the pictures of README, from the output of real commands (needs Chromium)
	@$(BIN)/python -m tests.screenshots $(ARGS)

readme: setup ## update the command output in README.md
	@$(BIN)/python -m tests.documents.examples

mutate: ## weaken each protection of the components, change 100 conditions of plan, checks, pricing, rules; print which tests fail
	@scripts/setup system
	@$(BIN)/python -m tests.mutation $(ARGS)
	@$(BIN)/python -m tests.mutation --conditions 100 $(ARGS)

versions: setup ## tests with the lowest and with the newest version of every direct dependency
	@scripts/versions $(or $(ARGS),$(VERSIONED))

lock: setup ## write requirements/*.txt from pyproject.toml
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 pyproject.toml --extra lab --extra dev \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" -o requirements/lock.txt
	@grep -E '^uv==[^ ]+' -o requirements/lock.txt | $(BIN)/uv pip compile -q --universal --python-version 3.11 - \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" -o requirements/bootstrap.txt
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 requirements/checkov.in \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" -o requirements/checkov.txt
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 requirements/go.in \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" -o requirements/go.txt

clean: ## delete the sandbox, its state and all caches (keeps .venv)
	@[ ! -x $(BIN)/gpufleet ] || { $(BIN)/gpufleet sandbox stop; $(BIN)/gpufleet rack down; }
	@rm -rf .gpufleet .mypy_cache .ruff_cache .pytest_cache
