# SPDX-License-Identifier: GPL-2.0-only
# What a person calls; the work is done by setup/*.sh and by .venv/bin/tailgate.
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= /usr/bin/python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/pytest -q --numprocesses $(shell nproc) --dist worksteal
VM_PYTEST := $(PYTEST) --dist loadgroup --no-loadscope-reorder
VM_TEST := $(VM_PYTEST) tests/vm
KERNELS := stable backports stable-rt backports-rt
DEBUG_KERNELS := stable-kasan backports-kasan stable-kcsan backports-kcsan
C_SOURCES = $(shell find sched flash kernel sim src tests -name '*.[ch]' -o -name '*.[ch]pp')

.PHONY: help demo check check-debug claims docs bench blktests setup-demo setup-check venv venv-dev kernel-demo kernels \
	kernels-debug modules modules-debug lint format build-test unit models swarm swarm-faults faults vm-test vm-test-all \
	vm-test-repeat vm-test-debug lock clean clean-host sim

help: ## these lines
	@echo "Tailgate: I/O schedulers for real-time latency on flash drives, and the lab that measures them."
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

# --- the commands ------------------------------------------------------------------------------------------

demo: ## K2 against none, mq-deadline, kyber and bfq in a virtual machine: table and report
	@setup/stages.sh demo \
		"60|Debian packages|setup/host.sh demo" \
		"40|Python packages and guest kernel|make -s venv kernel-demo" \
		"10|kernel modules|$(BIN)/python -m tailgate.guest.modules backports" \
		"90|measuring|$(BIN)/tailgate run k2/fig8 --target vm --quick --fresh"

check: ## set-up and every test: lint, unit, modules' build, virtual machines on all kernels
	@setup/stages.sh check \
		"90|Debian packages|setup/host.sh check" \
		"120|Python packages and guest kernels|make -s -j2 --output-sync=line venv-dev kernels" \
		"40|kernel modules|make -s modules" \
		"30|simulator|make -s sim" \
		"25|lint|make -s lint" \
		"40|modules at W=1 and under sparse|make -s build-test" \
		"250|unit tests|make -s unit" \
		"780|virtual machines|make -s vm-test"
	@echo "$$NOT_TESTED"

define NOT_TESTED
Not tested by make check:
  every kernel with 1, 2 and 4 CPUs (some combinations only)     make vm-test-all
  MQFQ's parts neighbours and paged in guests (K2's only)        make vm-test-all
  kernels with KASAN, lockdep, KCSAN and failing allocations     make check-debug
  the kernel developers' tests                                   make blktests BLKTESTS=DIR
  the large searches of MQFQ's models (no C code)                make models
  the swarm beyond 2000 scenarios of each scheduler              make swarm SCHEDULER=k2
  faults put back in the swarm (those found soon only)           make swarm-faults
  faults of the past put back in virtual machines (some only)    make faults
  fio's own 107 examples (the 86 of Debian's package only)       FIO_EXAMPLES=DIR make unit
  the demo, as a new user runs it                                make demo
  the figures that README and docs promise                       make claims
  speed, memory and instructions per I/O                         make bench
  the set-up of an empty machine, guests under KVM, real drives, other processors than x86-64
Tests that were skipped say why above.
endef
export NOT_TESTED

check-debug: ## the modules on kernels that look for faults: KASAN, lockdep, failing memory; KCSAN (hours)
	@setup/stages.sh check-debug \
		"60|Debian packages|setup/host.sh check-debug" \
		"120|Python packages and guest kernels|make -s venv-dev" \
		"3000|debug kernels, once|make -s kernels-debug" \
		"60|kernel modules|make -s modules-debug" \
		"3600|virtual machines|make -s vm-test-debug"

claims: ## measure every figure that is promised anywhere (hours, resumable): claims/results/
	@setup/stages.sh claims \
		"60|Debian packages|setup/host.sh check" \
		"120|Python packages and guest kernels|make -s venv-dev kernels" \
		"40|kernel modules|make -s modules" \
		"30|simulator|make -s sim" \
		"7200|claims|$(BIN)/tailgate claims"

docs: ## write the tables of results in README.md and docs/ (seconds; measures nothing)
	@$(BIN)/tailgate claims --docs

bench: ## instructions per I/O, operations on many CPUs, the simulator's speed, lines of code: bench.json
	@setup/stages.sh bench \
		"60|Debian packages|setup/host.sh check" \
		"120|Python packages and guest kernels|make -s venv-dev kernels" \
		"40|kernel modules|make -s modules" \
		"30|simulator|make -s sim" \
		"370|measuring|$(BIN)/tailgate bench"

TESTS ?= block loop scsi zbd nvme
SCHEDULER ?= k2
# KERNEL: backports, stable, or both, which is the default. TESTS: groups and tests.
blktests: ## a checkout of blktests judges k2 beside mq-deadline (hours, resumable): BLKTESTS=DIR
	@test -f "$(BLKTESTS)/tests/block/rc" || { echo "tailgate: BLKTESTS='$(BLKTESTS)' is no checkout of" \
		"linux-blktests/blktests: clone it, then make blktests BLKTESTS=DIR" >&2; exit 2; }
	@setup/stages.sh blktests \
		"60|Debian packages|setup/host.sh blktests" \
		"60|Python packages|make -s venv" \
		"14400|tests|$(BIN)/tailgate blktests $(foreach label,$(KERNEL),--kernel $(label)) \
			--scheduler $(SCHEDULER) '$(BLKTESTS)' $(TESTS)"

setup-demo: ## only the set-up of demo
	@setup/stages.sh setup-demo \
		"60|Debian packages|setup/host.sh demo" \
		"40|Python packages and guest kernel|make -s venv kernel-demo" \
		"10|kernel modules|$(BIN)/python -m tailgate.guest.modules backports"

setup-check: ## only the set-up of check
	@setup/stages.sh setup-check \
		"90|Debian packages|setup/host.sh check" \
		"120|Python packages and guest kernels|make -s -j2 --output-sync=line venv-dev kernels" \
		"40|kernel modules|make -s modules"

clean: ## remove .venv and build; the cache and the runs stay
	rm -rf $(VENV) build

clean-host: ## remove what set-up wrote below /etc/apt, name the packages it installed
	@setup/host.sh clean

# --- the parts ---------------------------------------------------------------------------------------------

lint: ## clang-format, ruff, mypy, and which package of the lab may import which
	clang-format --dry-run -Werror $(C_SOURCES)
	$(BIN)/ruff format --quiet --check src tests
	$(BIN)/ruff check --quiet src tests
	$(BIN)/mypy --no-error-summary
	@mkdir -p build; $(BIN)/lint-imports --no-logo --no-cache > build/imports.log || { cat build/imports.log; exit 1; }

format: ## let clang-format and ruff rewrite the sources
	clang-format -i $(C_SOURCES)
	$(BIN)/ruff format --quiet src tests
	$(BIN)/ruff check --quiet --fix src tests

build-test: ## the modules build without a warning, on all kernels, at W=1 and under sparse
	$(PYTEST) tests/kernel

unit: sim ## everything that needs no virtual machine
	$(PYTEST) --ignore=tests/vm --ignore=tests/kernel

models: ## all searches of MQFQ's models, the large ones too (minutes)
	TAILGATE_LARGE_MODELS=1 $(PYTEST) tests/unit/test_models.py

swarm: ## random knobs, loads and faults against the laws of SCHEDULER, until stopped; SEED=N begins there
	$(BIN)/python -m tests.swarm play $(SCHEDULER) $(SEED)

swarm-faults: ## faults that K2 once had, put back, and invented ones of the others: which law finds each, and how soon
	$(BIN)/python -m tests.swarm faults

faults: ## faults that K2 once had, put back one by one: what finds each (half an hour, with virtual machines)
	@$(BIN)/python -m tests.faults

vm-test: ## all tests that boot a virtual machine
	$(VM_TEST)

vm-test-all: ## vm-test with 1, 2 and 4 CPUs on each kernel: hours
	TAILGATE_ALL_MACHINES=1 $(MAKE) -s vm-test

vm-test-repeat: ## vm-test ten times, five of them beside four busy loops: the record, kept (hours, resumable)
	@$(BIN)/python -m tests.vm.repeat $(VM_TEST)

vm-test-debug: ## the modules' parts on debug kernels
	TAILGATE_DEBUG_KERNELS=1 $(VM_PYTEST) tests/vm/test_k2.py::test_part tests/vm/test_vflash.py::test_device

# The lab itself fetches the kernels, while pip is at work on what only tests need.
kernel-demo: $(VENV)/run.stamp
	@$(BIN)/python -m tailgate.guest.kernels backports
kernels: $(VENV)/run.stamp
	@$(BIN)/python -m tailgate.guest.kernels $(KERNELS)

kernels-debug: $(VENV)/run.stamp ## guest kernels built with KASAN and lockdep, and with KCSAN (setup/kernels)
	@$(BIN)/python -m tailgate.guest.kernels $(DEBUG_KERNELS)

modules: ## kernel modules for all guests, in build/
	@$(BIN)/python -m tailgate.guest.modules $(KERNELS)

modules-debug:
	@$(BIN)/python -m tailgate.guest.modules $(DEBUG_KERNELS)

sim: $(VENV)/sim.stamp ## the simulator, into .venv

venv: $(VENV)/run.stamp
venv-dev: $(VENV)/dev.stamp

# One environment, filled in two steps: what runs, then what tests. A changed lock, and nothing else, installs
# again.
$(VENV)/run.stamp: requirements.lock pyproject.toml
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	$(call install,$<)
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "python: ready"
$(VENV)/dev.stamp: requirements-dev.lock $(VENV)/run.stamp
	$(call install,$<)
	@touch $@
	@echo "python: ready to test"

$(VENV)/sim.stamp: $(VENV)/dev.stamp $(shell find sim sched flash -type f)
	@echo "simulator: compiling"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-deps --no-build-isolation --force-reinstall ./sim
	@touch $@
	@echo "simulator: ready"

define install
@echo "python: packages of $(1) into $(VENV)"
@$(PIP) --no-compile --no-deps --only-binary :all: --require-hashes -r $(1) || \
	{ echo "tailgate: pip cannot install $(1): check the network" >&2; exit 1; }
endef

# Needs uv on PATH, as nothing else here does.
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --only-binary :all: \
	--no-emit-index-url --no-header pyproject.toml --group build
lock:
	$(LOCK) -o requirements.lock
	$(LOCK) --group sim --group dev -c requirements.lock -o requirements-dev.lock
	sed -i '1i # SPDX-License-Identifier: GPL-2.0-only' requirements.lock requirements-dev.lock
