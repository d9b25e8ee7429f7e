# One command each: demo, test, check, bench. Needs git, make, python3 with its venv module.
# PYTHON: interpreter of the environment. TORCH: how to get torch, for example
# make TORCH='torch==2.13.0 --index-url <index of the CPU wheels>' to save 3 GB of CUDA libraries.
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The oldest transformers that is supported, beside the newest, with what it needs of older versions.
OLDER := $(VENV)/older_transformers
OLDER_PARTS := transformers==5.2.0 huggingface_hub==1.33.0 tokenizers==0.22.2 httpx==0.28.1 \
  httpcore==1.0.9 certifi
PACKAGES := cloud_backbone onboard_decoder protos sim tendon
RENDERING := libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri xvfb
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# Everything runs as modules of the environment's python, so that nothing needs an activated shell.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test check bench venv rendering clean help

help:
	@echo 'make demo    one instruction, done by the simulated arm; writes runs/demo'
	@echo 'make test    check, then all tests'
	@echo 'make check   linters, types, import contracts, wire'
	@echo 'make bench   the latency budget, measured; writes runs/bench'
	@echo 'make venv    only the environment $(VENV)'
	@echo 'make clean   removes the environment and what was built'

demo: venv
	tendon demo --out runs/demo

test: check
	python -m pytest

check: venv
	ruff check .
	mypy
	lint-imports
	buf lint

bench: venv
	tendon bench latency --out runs/bench

venv: $(STAMP) $(OLDER)/.installed

# pip comes first: its resolver before 24 loses its way among the requirements.
$(STAMP): setup.py pyproject.toml constraints.txt $(wildcard protos/*.proto cloud_backbone/kv_cache/kernel/*) | rendering
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "tendon: no venv module; try: $(SUDO) apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo 'tendon: needs Python 3.10 or newer; set PYTHON=' >&2; exit 1; }
	$(BIN)/python -m pip install -q -c constraints.txt --upgrade pip
	$(BIN)/python -m pip install $(TORCH)
	$(BIN)/python -m pip install -c constraints.txt -e '.[all]'
	@touch $@

# Only the tests use it: they put it on the path of a process of its own.
$(OLDER)/.installed: | $(STAMP)
	@rm -rf $(OLDER)
	$(BIN)/python -m pip install -q --no-deps --no-compile --target $(OLDER) $(OLDER_PARTS)
	@touch $@

# Mesa's software renderer draws the camera images where there is no screen and no GPU.
rendering:
	@if dpkg -s $(RENDERING) >/dev/null 2>&1; then :; \
	elif [ -n "$(SUDO)" ] && ! command -v sudo >/dev/null; then \
	  echo 'tendon: no sudo here; let root run: apt-get install $(RENDERING)' >&2; exit 1; \
	elif command -v apt-get >/dev/null; then \
	  echo 'tendon: installing $(RENDERING)'; \
	  $(SUDO) apt-get update -q && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(RENDERING); \
	else echo 'tendon: no apt-get here; if tendon doctor cannot render, install Mesa with EGL' >&2; fi

clean:
	rm -rf $(VENV) build install log *.egg-info
	find $(PACKAGES) \( -name '*_pb2*' -o -name '_kernel.so' \) -delete
