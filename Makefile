# Iris: every target here works from a fresh clone on Debian or Ubuntu as root; what it needs, it installs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
CLUSTER ?= embedded
ROOT := $(CURDIR)/.iris
PY := .venv/bin/python
DEV := .venv/bin/iris-devcluster
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup venv cluster cluster-down images install demo test test-unit properties test-cluster test-e2e soak lint verify generate bench clean

help: ## Explain every target
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST) | \
	  if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi

venv: .venv/.stamp ## The Python environment alone (.venv)
.venv/.stamp: pyproject.toml constraints.txt hatch_build.py $(shell find operator runtimes -name '*.proto')
	@echo "Python environment (.venv)"
	@scripts/venv
	@touch $@

setup: venv ## Install all that is needed: Python packages, Debian packages, the cluster's programs
	@$(DEV) setup

cluster: setup ## Start the embedded cluster with the simulated CoreWeave (kubeconfig: .iris/kubeconfig)
	@$(DEV) up
	@$(DEV) cloud start

cluster-down: ## Stop the embedded cluster and remove every trace of it
	@test -x $(DEV) || { echo "nothing is installed here, so nothing runs"; exit 0; }; $(DEV) down

images: venv ## Build the images into the cluster's registry (ARGS="--push HOST/PATH" for another)
	@$(DEV) images $(ARGS)

install: ## helm install (or upgrade) the chart on $KUBECONFIG's cluster (ARGS="--set ...")
	@scripts/install $(ARGS)

demo: ## The whole product on this machine in one go; CLUSTER=kind uses kind (needs Docker)
	@CLUSTER=$(CLUSTER) scripts/demo

test: setup ## Set up all it needs and run every test: unit, cluster, e2e (all but the soak)
	@scripts/test $(ARGS)

test-unit: venv ## Pure tests, no sockets
	@.venv/bin/pytest tests/unit -m "not cluster" $(ARGS)

properties: venv ## Property tests in thousands of cases (CASES=2000 for each, SEED=number to repeat a run)
	@seed=$${SEED:-$$RANDOM$$RANDOM}; echo "seed $$seed (make properties SEED=$$seed)"; \
	  IRIS_CASES=$(or $(CASES),2000) .venv/bin/pytest tests/properties --hypothesis-seed=$$seed --timeout=0 $(ARGS)

test-cluster: setup ## Tests against a real API server
	@.venv/bin/pytest tests/cluster $(ARGS)

test-e2e: setup ## Tests on real nodes with the installed chart
	@.venv/bin/pytest tests/e2e $(ARGS)

soak: setup ## What make test leaves out: each part killed in turn; Tasks drawn at random, parts killed (TASKS=500, SEED=number)
	@seed=$${SEED:-$$RANDOM}; echo "seed $$seed (make soak SEED=$$seed)"; IRIS_SOAK_SEED=$$seed IRIS_SOAK_TASKS=$(or $(TASKS),500) \
	  .venv/bin/pytest -m soak tests/e2e/product tests/cluster/images --timeout=0 --log-cli-level=INFO $(ARGS)

lint: venv ## ruff, mypy --strict, import contracts
	@test ! -e operator/__init__.py || { echo "operator/__init__.py would shadow the standard library's operator"; exit 1; }
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check -q .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

generate: venv ## Write crds/, the chart's CRDs and docs/api.md from the models
	@$(PY) -m iris_operator.api.crd
	@$(PY) -m iris_operator.api.reference

verify: venv ## Fail when generated files are not what the models say
	@$(PY) -m iris_operator.api.crd --check
	@$(PY) -m iris_operator.api.reference --check

bench: setup ## Measure: planning; Tasks beside Kubernetes Jobs and straight containerd; a fleet of 1,000 slices
	@$(PY) -m tests.perf.bench $(ARGS)

clean: cluster-down ## Remove the Python environment and all caches of this checkout
	@rm -rf .venv .iris .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
