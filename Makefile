# SPDX-License-Identifier: Apache-2.0
# Everything runs in .venv, which `setup` makes. Nothing has to be installed first but Python 3.10 or newer.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.PHONY: help setup demo test backends up down demo-up format lint types docs picture site bench gpu failing-calls faults test-beside mutants soak hostile test-versions release-check clean

BIN := .venv/bin
PLAIN_PYTHON := $(or $(PYTHON),$(wildcard .venv/bin/python),python3)
# Whatever the shell: UTF-8, and the programs of .venv.
export PYTHONUTF8 := 1
# Where the surroundings forbid bytecode, each process would compile PyTorch's modules anew: ten seconds more, a hundred times.
export PYTHONDONTWRITEBYTECODE :=
export PATH := $(CURDIR)/.venv/bin:$(PATH)

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup:  ## .venv with everything (about 3 GB to download the first time)
	@tools/setup

demo: setup  ## compile two small models and show where the time goes; needs no GPU
	@$(BIN)/python -m torchspan demo

test: setup  ## every check: formatting, lint, types, tests, README, examples, documents; ALL=1: slow tests and coverage too; BACKENDS=build: build what they run
	@$(BIN)/python tools/check.py $(if $(ALL),--all) $(if $(filter build,$(BACKENDS)),--build-backends)

# Needs a Python alone, not what `setup` installs.
backends:  ## the Collector, Jaeger and Prometheus that tests run, from source (needs Go; about 15 minutes the first time)
	@$(PLAIN_PYTHON) tools/backends.py $(ONLY)

up:  ## Collector, Jaeger and Prometheus on this machine, built first where they are missing; prints their addresses
	@$(PLAIN_PYTHON) tools/local.py up

down:  ## end them and remove their data
	@$(PLAIN_PYTHON) tools/local.py down

demo-up: setup  ## the demo, with its trace and metrics sent to what `make up` started
	@$(BIN)/python tools/local.py demo

format: setup  ## format the code
	@$(BIN)/python -m ruff format
	@$(BIN)/python -m ruff check --fix

lint: setup  ## formatting and lint
	@$(BIN)/python tools/check.py format lint

types: setup  ## type check, strict
	@$(BIN)/python tools/check.py types

docs: setup  ## write the generated documents
	@$(BIN)/python tools/generate.py

picture: setup  ## the pictures of README and of the guides, in docs/images, from a new run of the demo; ONLY=waterfall: without a browser
	@$(BIN)/python tools/draw_pictures.py $(ONLY)

site: setup  ## the documentation as a site, in .site/html; fails for a broken link (needs Python 3.11)
	@$(BIN)/python tools/build_site.py

bench: setup  ## what tracing costs, figure beside target
	@$(BIN)/python benchmarks

# Runs with the PyTorch of this machine, not with what `setup` installs.
gpu:  ## on a machine with an NVIDIA GPU and PyTorch: tests and benchmarks on it, and docs/reference/gpu.md; WHEELS=folder: without network; TESTS=tests/gpu: these; REHEARSE=1: without a GPU
	@$(or $(PYTHON),python3) tools/gpu.py $(if $(WHEELS),--wheels $(WHEELS)) $(if $(REHEARSE),--rehearse) $(TESTS)

failing-calls: setup  ## each call of torchspan's functions fails, one in each try (20 minutes); ONLY="runs threads": these scripts
	@$(BIN)/python tools/failing_calls.py $(ONLY)

faults: setup  ## the tests of the table of faults, and its results
	@$(BIN)/python tools/faults.py

test-beside: setup  ## the same program with other tools, torchspan, and both, compared (about 10 minutes, 1 GB in .venvs); ONLY="sentry ray": these tools
	@$(BIN)/python tools/coexistence.py $(ONLY)

mutants: setup  ## small changes of the code that a test must notice (up to 2 hours); ONLY="words/redaction engine": these folders
	@$(BIN)/python tools/mutants.py $(ONLY)

soak: setup  ## a quarter of an hour of work with torchspan, in lock-step with the same work without it
	@$(BIN)/python tools/soak.py

hostile: setup  ## programs that torchspan traces while garbage collection, signals, forks and imports come at the worst moment, for two minutes
	@$(BIN)/python tools/hostile_scheduler.py

test-versions: setup  ## the tests on each Torch-TensorRT, Python, and oldest and newest OpenTelemetry, continued where it stopped (25 GB in .venvs); AGAIN=1: all rows again; ONLY="2.13 2.12": these rows; TESTS=tests/dynamo: these tests
	@$(BIN)/python tools/test_versions.py $(if $(AGAIN),--again) $(ONLY) $(TESTS)

release-check: setup  ## build the package, check its metadata, use it in an empty environment; STEPS="build metadata": these steps
	@$(BIN)/python tools/release_check.py $(STEPS)

clean:  ## remove what the above made, .venv and .venvs included
	rm -rf .venv .venvs .venv-gpu dist .bench .site .cache .coverage* .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
