# make demo, make test: each makes .venv, installs what it needs, and can be run again at once.
#
# PYTHON      the interpreter that makes .venv (3.11 or later)
# TORCH       what to install as PyTorch
# TORCH_ARGS  further arguments of that pip install, such as
#             --index-url https://download.pytorch.org/whl/cpu   for a build without CUDA on Linux
PYTHON ?= python3
TORCH ?= torch==2.13.0
TORCH_ARGS ?=
EXTRAS := test,lint,viz,llm,tau2
PYTEST_ARGS ?= -n 2 --dist loadfile

VENV := .venv
BIN := $(VENV)/bin
# The stamp names what was asked for: another pyproject.toml or another torch is another stamp, and installs again.
HASH := $(shell (cat pyproject.toml; echo '$(TORCH) $(TORCH_ARGS) $(EXTRAS)') | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.installed-$(HASH)

# Where Python comes without its venv module (Debian packs it apart), virtualenv makes the environment.
WITHOUT_VENV = { $(PYTHON) -m pip install --quiet --target .venv-maker virtualenv && \
	PYTHONPATH=.venv-maker $(PYTHON) -m virtualenv --quiet --clear $(VENV) && rm -rf .venv-maker; }

# One thread a process: more of them wait for each other at every barrier where the processors are shared, and the demo
# is minutes long with one.
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1
export WANDB_MODE ?= offline
export TOKENIZERS_PARALLELISM ?= false

.PHONY: install demo test lint bench sample results clean
.DELETE_ON_ERROR:

install: $(STAMP)

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || $(WITHOUT_VENV)
	@rm -f $(VENV)/.installed-*
	@echo 'Installing into $(VENV); this takes some minutes, once.'
	$(BIN)/python -m pip install --disable-pip-version-check $(TORCH_ARGS) '$(TORCH)'
	$(BIN)/python -m pip install --disable-pip-version-check '$(TORCH)' -e '.[$(EXTRAS)]'
	@touch $@

demo: $(STAMP)
	$(BIN)/fresh demo

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/run_all.py

# The committed checkpoint that the README's example loads.
sample: $(STAMP)
	$(BIN)/fresh fit --config training/configs/sample.yaml --export=checkpoints/sample \
	  --data.paths='[tests/data/desks]'

# The README's tables, from the JSON files under docs/results.
results: $(STAMP)
	$(BIN)/python benchmarks/render_results.py

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis runs wandb checkpoints/tau2
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
