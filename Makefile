# SPDX-License-Identifier: GPL-2.0-only
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= /usr/bin/python3
BIN := .venv/bin

.PHONY: help venv venv-dev lock

help:
	@echo "make venv | venv-dev | lock"

venv: build/venv.stamp
venv-dev: build/venv-dev.stamp

# One environment, two fillings: what runs, and what also tests. The stamp is keyed by its lock, so a
# changed lock, and nothing else, installs again.
build/venv.stamp: requirements.lock pyproject.toml
	$(call install,$<)
	@touch $@
build/venv-dev.stamp: requirements-dev.lock requirements.lock pyproject.toml
	$(call install,$<)
	@touch $@ build/venv.stamp

define install
@mkdir -p build
@test -x $(BIN)/python || $(PYTHON) -m venv .venv
@echo "Python packages of $(1) into .venv"
@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps --only-binary :all: --require-hashes -r $(1)
@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
endef

# Needs uv on PATH; nothing else here does.
lock:
	@for l in requirements requirements-dev; do echo "# SPDX-License-Identifier: GPL-2.0-only"; done >/dev/null
	uv pip compile --quiet pyproject.toml --group build $(LOCKFLAGS) -o requirements.lock
	uv pip compile --quiet pyproject.toml --group build --group dev $(LOCKFLAGS) -c requirements.lock -o requirements-dev.lock
