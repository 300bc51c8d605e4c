# The six commands of a contributor; `make` alone names them.
PYTHON ?= python3

.PHONY: help setup test lint types docs ci
help:
	@sed -n "s/^\([a-z]*\):.* ## /\1  /p" Makefile

setup: ## an environment in .venv, with the versions that CI installs
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -c .ci/constraints.txt -e '.[train,dev]'

test: ## unit tests, under a minute on two idle cores
	.venv/bin/python -m pytest -m 'not slow'

lint: ## style and form
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: ## pyright, strict
	.venv/bin/pyright --pythonpath .venv/bin/python

docs: ## the site of the guides, in build/site; a broken link is an error
	.venv/bin/python tools/docs/reference_pages.py
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict

ci: ## everything that CI runs, in a fresh environment
	bash .ci/run
