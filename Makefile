# The commands of this repository; `make help` lists them. Setting up is tools/setup, done again only when
# pyproject.toml changes.
SHELL := /bin/bash
BIN := .venv/bin
TESTS ?= tests

.DEFAULT_GOAL := help
.PHONY: help demo test test-all bench lint format clean
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: .venv/runtime.stamp ## install what is needed and do the main job once: a spoken question, a spoken answer
	@exec $(BIN)/accord demo

test: lint ## lint, types, import floors, and every test that takes seconds; TESTS=tests/x.py runs a part
	@echo "  tests"
	@exec $(BIN)/python -m pytest -m "not slow" $(TESTS)

test-all: lint ## the same, with the slow tests and many more random examples
	@echo "  all tests"
	@exec $(BIN)/python -m pytest --hypothesis-profile=all $(TESTS)

lint: .venv/dev.stamp ## ruff, mypy and the import floors
	@echo "  lint"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --diff .
	@echo "  types"
	@$(BIN)/mypy --no-error-summary
	@echo "  import floors"
	@$(BIN)/lint-imports >.venv/floors.log || { cat .venv/floors.log; exit 1; }

format: .venv/dev.stamp ## let ruff lay out the code and mend what it safely can
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

bench: .venv/bench.stamp ## run every benchmark and print one table of the figures
	@exec $(BIN)/python benchmarks/_run_all.py

clean: ## remove what was built or written here: .venv, out, caches (fetched weights stay in their cache)
	@rm -rf .venv out benchmarks/out dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/runtime.stamp: pyproject.toml tools/setup
	@tools/setup runtime

.venv/dev.stamp: pyproject.toml tools/setup $(wildcard tools/peers*.txt)
	@tools/setup dev

.venv/bench.stamp: pyproject.toml tools/setup $(wildcard tools/peers*.txt)
	@tools/setup bench
