# The two commands: `make run` and `make test`. Both do all the set-up, once; neither starts a service.
PYTHON ?= python3
BIN := .venv/bin
NATIVE := setup.py $(wildcard testbed/netcore/*.[ch] testbed/netcore/sharing/*.[ch]) $(addprefix testbed/dataplane/native/runtime/,abi.h crc32.h)
SIMULATION_PACKAGES := gcc libc6-dev python3-venv python3-dev
RUN_PACKAGES := mininet openvswitch-switch iproute2 iputils-ping $(SIMULATION_PACKAGES)
# What root has set up serves a user's simulations too.
ENGINE := $(if $(filter 0,$(shell id -u))$(wildcard .venv/.run-packages),run,simulation)
TEST_PACKAGES := $(RUN_PACKAGES) iperf3 tcpdump tshark procps
VM_PACKAGES := debootstrap qemu-system-x86 e2fsprogs openssh-client

.DELETE_ON_ERROR:
.PHONY: run test check bench test-kernel wheel clean

run: .venv/.core
	@if [ "$$(id -u)" = 0 ]; then exec $(BIN)/testbed run experiments/quickstart.yaml; \
	else echo "make run: emulation needs root (sudo make run), so this is a simulation of the same spec" >&2; \
	exec $(BIN)/testbed run experiments/quickstart.yaml --engine simulation; fi

# What judges times has the machine for itself; and comes before the others that need root, as the first of them measures
# what a new machine carries. What judges none shares both cores.
test: check
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 -m "not root"
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -m "root and not beside"
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 -m "root and beside"

check: .venv/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/.test
	@for bench in $(basename $(notdir $(filter-out %/__init__.py,$(wildcard tests/bench/*.py)))); do \
		echo "== $$bench"; $(BIN)/python -m tests.bench.$$bench || exit 1; done

# The same tests on a stock kernel (netem, kernel datapath), in a virtual machine: what works, not how fast.
test-kernel: .venv/.test .venv/.vm-packages
	tests/kernel/run

wheel: .venv/.test
	$(BIN)/pip -q wheel --no-deps -w dist .

clean:
	rm -rf build dist .venv testbed/netcore/*.so *.egg-info

# -- set-up: each stamp is a file in .venv, so that a second call does nothing ---------------------------------------

.venv/.core: .venv/.$(ENGINE)-packages pyproject.toml $(NATIVE)
	$(BIN)/pip -q install -e .
	@touch $@

.venv/.test: .venv/.test-packages .venv/.core
	$(BIN)/pip -q install -e '.[test]'
	@touch $@

.venv/.%-packages: .venv/bin/python
	@tests/setup/packages $($(shell echo $* | tr a-z A-Z)_PACKAGES)
	@touch $@

# Debian's python3 comes without ensurepip until python3-venv is there.
.venv/bin/python:
	@tests/setup/packages python3-venv
	$(PYTHON) -m venv .venv
