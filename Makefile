# Each target makes its own .venv on a fresh clone. The same jobs without make stand in book/how_to_run.md.

# The first Python that will do; failing that any, so that env.py can say in one line what is wrong with it.
NEW_ENOUGH := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
FOUND := $(shell for python in python3 python3.13 python3.12 python3.11; do \
	if $$python -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo $$python; break; fi; done)
PYTHON ?= $(or $(FOUND),python3)
RUN := .venv/bin/python
PORT ?= 8000

# Tests of a file run one after the other: a page's cells share a kernel. One thread a process: more would only
# wait for one another. Two processes keep two cores busy; where browsers are waited for, it takes three.
PYTEST := $(RUN) -m pytest --dist loadfile --no-loadscope-reorder --durations=10
WIDE = $(shell grep -l 'pytest\.mark\.wide' tests/test_*.py)
export OMP_NUM_THREADS ?= 1
# What one process has compiled serves the others.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help env env-book env-pdf env-test book pdf lint test check proofs bench release serve clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\): .*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 10

env: env-test ## make .venv with all that is needed (the other targets take what they need themselves)

# A Python that somebody has named counts: a .venv of another version is then made anew.
env-book env-pdf env-test:
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "attnlib: no Python found; 3.11 or newer is needed" >&2; exit 1; }
	@$(PYTHON) book/_tools/env.py $(@:env-%=%) $(if $(filter file,$(origin PYTHON)),,--this-python)

book: env-book ## run the pages, build the book, and say where it lies
	@$(RUN) book/_tools/build.py

pdf: env-pdf ## print the built book as one PDF, which its site then offers (some minutes, 7 GB of memory)
	@test -f _build/html/index.html || $(RUN) book/_tools/build.py
	@$(RUN) book/_tools/pdf.py

lint: env-test ## ruff: the form of all code, pages too, and likely mistakes in it
	@$(RUN) -m ruff check attnlib bench tests book notebooks proofs
	@$(RUN) -m ruff format --check attnlib bench tests book notebooks proofs

test: lint ## library, claims and pages; the book and its site wait for `make check`
	@$(PYTEST) -n 2

check: env-test ## what `make test` leaves out: the site in a browser, pages as in Colab, broken kernels on pages
	@$(PYTEST) -n 3 -m wide $(WIDE)

proofs: env-book ## let Coq check the proofs in proofs/ (ACCEPT=1: statements that changed are meant)
	@$(RUN) proofs/check.py $(if $(ACCEPT),--accept)

bench: env-test ## measure the kernels beside their peers, in alternation: ratios, some minutes
	@$(RUN) -m bench --quick

release: env-pdf ## VERSION=x.y.z: number and day everywhere; then all that goes out, tried, in _build/release
ifdef VERSION
	@$(RUN) proofs/check.py --compare --kernel
	@$(RUN) book/_tools/release.py bump $(VERSION)
endif
	@$(MAKE) book pdf
	@$(RUN) book/_tools/claims.py release
	@$(RUN) book/_tools/release.py pack

serve: env-book ## show the built book at http://localhost:8000 (or PORT=...)
	@test -f _build/html/index.html || $(RUN) book/_tools/build.py
	@$(RUN) -m http.server --bind localhost --directory _build/html $(PORT)

clean: ## remove what was built (.venv stays)
	@rm -rf _build build *.egg-info .pytest_cache .hypothesis
	@find . -name .venv -prune -o -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -exec rm -rf {} +
