# Every target installs what it needs into .venv first, from a fresh clone, with no other step.
#   make reproduce   the reproduction table of every thread; figures go to reports/
#   make test        lint, then the tests
#   make lab         JupyterLab on the notebooks
#   make bench       how fast the engine is here
#   make validate    VALIDATION.md from all data
# make help lists the others. PYTHON=/path/to/python3.12 chooses the interpreter.

VENV := .venv
PY := $(VENV)/bin/python
BASE := $(VENV)/.installed-base# the package and what it needs to run
FULL := $(VENV)/.installed-full# and every extra
PYTHON ?=
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
JOBS ?= 2

export PYTHONUNBUFFERED := 1
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help env env-full reproduce validate test lint format sync lab bench peers planted-bugs lock clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

env: $(BASE) ## .venv with the package and what it needs to run

env-full: $(FULL) ## the same with every extra

reproduce: $(BASE) ## the reproduction table of every thread; figures go to reports/
	$(VENV)/bin/iosched reproduce --out reports

validate: $(BASE) ## VALIDATION.md and its figures, from all data (minutes)
	$(VENV)/bin/iosched validate

test: lint ## lint, then the tests (JOBS=2 at a time)
	$(PY) -m pytest -n $(JOBS)

lint: $(FULL) ## ruff's rules and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(FULL) ## let ruff repair what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

sync: $(FULL) ## bring each notebook and its percent script in step (the newer one wins), without outputs
	$(PY) -m jupytext --sync notebooks/*.ipynb
	$(PY) -m jupyter nbconvert --clear-output --inplace notebooks/*.ipynb

lab: $(FULL) ## JupyterLab on the notebooks
	$(PY) -m jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks

bench: $(BASE) ## how fast the engine is here
	$(PY) -m iosched.bench

peers: $(FULL) ## beside SimPy, Ciw, plain Python and C, in one run; reports/peers.txt and .png (ten minutes)
	$(PY) benchmarks/peers.py

planted-bugs: $(FULL) ## small wrong changes that the tests must notice; docs/planted-bugs.md (minutes)
	JOBS=$(JOBS) $(PY) benchmarks/planted_bugs.py

lock: $(FULL) ## renew requirements.lock from pyproject.toml
	$(PY) -m pip install uv
	@sed -n '/^#/p' requirements.lock > $(VENV)/lock
	$(PY) -m uv --no-python-downloads pip compile pyproject.toml --universal --python-version 3.11 --all-extras --upgrade \
	  --no-header --no-annotate >> $(VENV)/lock
	mv $(VENV)/lock requirements.lock

clean: ## remove .venv, reports/ and build leftovers (the compiled engine stays in ~/.cache/iosched)
	rm -rf $(VENV) reports build dist .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -type d -prune -exec rm -rf {} +

# --- the environment -----------------------------------------------------------------------------

# An environment without its interpreter or its pip, or one moved here with its folder, is made anew.
ifneq ($(shell $(PY) -c 'import pip, sys; print(sys.prefix in open(sys.prefix + "/pyvenv.cfg").read())' 2>/dev/null),True)
.PHONY: $(BASE) $(FULL) $(PY)
endif

$(BASE): pyproject.toml requirements.lock | $(PY)
	@echo "Installing iosched into $(VENV) (pinned by requirements.lock; a minute or so the first time)"
	$(PY) -m pip install -c requirements.lock -e .
	@touch $@

$(FULL): pyproject.toml requirements.lock | $(PY)
	@echo "Installing iosched with every extra into $(VENV) (a minute or two the first time)"
	$(PY) -m pip install -c requirements.lock -e '.[notebook,test,cluster,sensitivity,xarray,bench]'
	@touch $(BASE) $@

# The first interpreter that runs, is of a supported version and can make an environment.
# (A name on PATH may be a shim that does not run; Debian's python3 may come without ensurepip.)
$(PY):
	@no_venv=; seen=; \
	for python in $(CANDIDATES); do \
	  version=$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  seen="$$seen $$python is $$version,"; \
	  case $$version in 3.11|3.12|3.13) ;; *) continue ;; esac; \
	  if "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "Making $(VENV) with $$python (Python $$version)"; \
	    exec "$$python" -m venv --clear $(VENV); \
	  fi; \
	  no_venv="$${no_venv:-$$version}"; \
	done; \
	if [ -n "$$no_venv" ]; then \
	  echo "Python $$no_venv is here without its venv module: run 'apt-get install python$$no_venv-venv' as root and repeat." >&2; \
	else \
	  echo "iosched needs Python 3.11, 3.12 or 3.13, and$${seen:- none of $(CANDIDATES) runs,} so install one of them or name it with PYTHON=/path/to/python." >&2; \
	fi; \
	exit 1
