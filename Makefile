# The commands of this project. Everything runs in .venv, which is made when it is missing.

SYSTEM_PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
# Verilator's generated makefiles must not inherit the flags of this one.
PYTHON := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL $(VENV)/bin/python
# A file's tests stay on one worker, so that what a module builds once is built once.
PYTEST := $(PYTHON) -m pytest -n 2 --dist loadfile

.PHONY: docs demo test test-slow test-long test-all prove bench networks lint clean mutate pages fuzz fidelity rtl-coverage

demo: $(STAMP)
	$(PYTHON) -m tilewright.demo

test: lint
	$(PYTEST)

# The slow ring alone, in the files' order: by their numbers of tests, a file of one long test would come last, and one
# worker would wait for the other. pytest's exit code 5 says that it found no slow test: that is no failure.
IN_ORDER := --no-loadscope-reorder --durations=25
SLOW := -m 'slow and not long' $(IN_ORDER)
test-slow: $(STAMP)
	@echo "$(PYTEST) $(SLOW)"; \
	code=0; $(PYTEST) $(SLOW) || code=$$?; \
	if [ $$code -eq 5 ]; then echo 'the slow ring holds no tests'; code=0; fi; \
	exit $$code

# What slow tests hold, with more seeds, networks and machines, all proofs, and tests that take minutes each.
test-long: $(STAMP)
	$(PYTEST) -m long $(IN_ORDER)

test-all: test
	$(MAKE) test-slow
	$(MAKE) test-long

# That the hardware of the shipped machines does what their files say, by an SMT solver.
prove: $(STAMP)
	$(PYTHON) -m tilewright.rtl.proof

bench: $(STAMP)
	$(PYTHON) -m tests.bench
	$(PYTHON) -m tests.bench_speed
	$(PYTHON) -m tests.bench_instructions
	$(PYTHON) -m tests.bench_explore
	$(PYTHON) -m tests.bench_explore digits ds-cnn resnet8
	$(PYTHON) -m tests.schedules.cycles

# What the networks of programs/networks cost to compile and to simulate: some minutes.
networks: $(STAMP)
	$(PYTHON) -m programs.networks.measure

# A hundred seeded faults, and the tests that notice them: half an hour. docs/mutation.md has the last result.
mutate: $(STAMP)
	$(PYTHON) -m tests.mutation

# Generated inputs of every kind against all that reads a stranger's file, without end; `make fuzz TRIES=1000` has one.
fuzz: $(STAMP)
	$(PYTHON) -m tests.fuzz $(if $(TRIES),--tries $(TRIES))

# docs/operators.md, docs/files.md, docs/coverage.md and docs/onnx-backend.md, from what the compiler says, how the files
# of exporters end, and how ONNX's own tests end: some minutes.
pages: $(STAMP)
	$(PYTHON) -m tests.operators
	$(PYTHON) -m tests.files
	$(PYTHON) -m programs.networks.coverage --update
	$(PYTHON) -m tests.onnx_backend

# docs/fidelity.md: what the simulator says of six networks, and what the hardware takes. Builds hardware for some minutes.
fidelity: $(STAMP)
	$(PYTHON) -m tests.fidelity

# docs/rtl-coverage.md: which lines and bits of the Verilog a set of runs reaches. Builds hardware for ten minutes and more.
rtl-coverage: $(STAMP)
	$(PYTHON) -m tests.rtl.coverage --update

# The documentation as a site, in build/site; a dead link fails it.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

lint: $(STAMP)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy tilewright

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis sim_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# In a checkout these are links of the repository; an archive of the sources comes without them.
LINKS := $(addprefix tilewright/,codesign compiler isa rtl simulator)

$(LINKS):
	ln -s ../$(@F) $@

$(STAMP): pyproject.toml | $(LINKS)
	@$(SYSTEM_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Tilewright needs Python 3.11 or newer: name one with make SYSTEM_PYTHON=python3.12' >&2; exit 1; }
	@test -x $(VENV)/bin/python || $(SYSTEM_PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(SYSTEM_PYTHON) cannot make a virtual environment with pip: install Debian's python3-venv package, then run make again" >&2; exit 1; }
	test -x $(VENV)/bin/pip || $(SYSTEM_PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[rtl,test]'
	@touch $@
