# make demo   everything set up, two models trained and inspected side by side
# make test   everything set up, every test but the slow ones: two processes at a time, then those that want the machine alone
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
OUT ?= studies/archives
WHEELS ?= wheels

.PHONY: demo test test-slow test-seconds golden lint docs release-check tutorial pictures bars bench coverage false-alarms explore screenshots notebooks studies gpu wheels zoo lab clean
.DELETE_ON_ERROR:

demo: .venv/installed
	rm -rf demo/chacal demo/standard demo/report
	$(BIN)/workbench train chain-chacal --out demo/chacal
	$(BIN)/workbench train chain-standard --out demo/standard
	$(BIN)/workbench inspect demo/chacal demo/standard --out demo/report

test: .venv/installed
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not alone" $(ARGS) $(if $(ARGS),|| test $$? = 5)
	$(BIN)/pytest -m "alone and not slow" $$(grep -rl --include="*.py" "mark.alone" tests) $(ARGS) $(if $(ARGS),|| test $$? = 5)

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# All of them take an hour and a half; ARGS="--part 1/6" is a sixth of it, ARGS="--minutes 20" begins none after that.
test-slow: .venv/installed .venv/kernels
	$(BIN)/pytest -m slow $(ARGS)

# How long each test takes, written into tests/seconds.json, which says what is slow: two hours.
test-seconds: .venv/installed
	$(BIN)/pytest --write-seconds $(ARGS)

# What differs from the golden picture of the workbench; ARGS="--write words" takes a part of it anew. Two minutes.
golden: .venv/installed
	$(BIN)/python -m tests.golden $(ARGS)

# The site of the documentation, in site/; a warning, such as a link that leads nowhere, is a failure.
docs: .venv/docs
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Whether this commit can be released: built, and tried in fresh environments; PYTHONS="3.12 /path/of/python" says with which.
release-check:
	$(PYTHON) -m tests.release $(if $(PYTHONS),--pythons $(PYTHONS))

# The output of every command of the tutorials anew: four minutes; ARGS=real-model: that of the page on one, half an hour.
tutorial: .venv/installed
	$(BIN)/python -m tests.docs.tutorial --write $(ARGS)

# The pictures of docs/pictures, from runs made for them: two minutes.
pictures: .venv/installed
	$(BIN)/python -m tests.docs.pictures --root demo/pictures --out docs/pictures

# Every benchmark, and which of the figures asked for are reached; ARGS="attention:training seq_vcr --repeat 3" runs some.
bars: .venv/installed
	$(BIN)/python tests/benchmarks/bars.py $(ARGS)

bench: .venv/installed
	$(BIN)/python tests/benchmarks/bars.py --write
	$(BIN)/python tests/benchmarks/draw_growth.py

# The tables of false alarms in docs/false-alarms.md and docs/probing.md: an hour and a half.
false-alarms: .venv/installed
	$(BIN)/python -m tests.mechanisms.false_alarms --write
	$(BIN)/python -m tests.probes.false_alarms --write

# The tables in docs/concepts/controls.md: how often each interval holds the truth, and the one rule errs. Four minutes.
coverage: .venv/installed
	$(BIN)/python -m tests.measurement.coverage --write
	$(BIN)/python -m tests.judgement.simulation --write

# The pictures of docs/explorer, of the runs that come along: about two minutes; ARGS=--all makes every theme and width.
screenshots: .venv/installed
	$(BIN)/python -m tests.app.screenshots --out docs/explorer $(ARGS)

explore: .venv/installed
	mkdir -p demo
	$(BIN)/workbench explore --root demo

# Every claim of the papers at its small scale, and the pages of docs/studies: up to ten hours, and it may be stopped.
studies: .venv/installed
	$(BIN)/workbench study run --all
	$(BIN)/workbench study report --out docs/studies

# The next row of the ledger at scale gpu, on a machine that has Python 3.12, PyTorch and a GPU, and neither .venv nor a
# package index; what it measured is left in OUT. Without a GPU: what would run, in which order, and how long.
gpu:
	@$(PYTHON) -c 'import pydantic' 2>/dev/null || ls $(WHEELS)/*.whl >/dev/null 2>&1 || { echo "$(PYTHON) has no \
	pydantic, and there are no wheels in $(WHEELS)/: run \`make wheels\` where there is a package index, and bring them"; exit 1; }
	@$(PYTHON) -c 'import pydantic' 2>/dev/null || for wheel in $(WHEELS)/*.whl; do \
	  $(PYTHON) -m zipfile -e $$wheel $(WHEELS)/unpacked || exit; done
	@PYTHONPATH=$(CURDIR)$$($(PYTHON) -c 'import pydantic' 2>/dev/null || echo :$(abspath $(WHEELS))/unpacked)$${PYTHONPATH:+:$$PYTHONPATH} \
	  $(PYTHON) -m workbench study gpu --out $(OUT) $(ARGS)

# What such a machine lacks, 2.5 MB that git ignores: wheels for Python 3.12 on Linux, in the versions of constraints.txt.
wheels:
	$(PYTHON) -m pip download --quiet --no-deps --only-binary :all: --python-version 3.12 --platform manylinux2014_x86_64 \
	  --constraint constraints.txt --dest $(WHEELS) pydantic pydantic_core annotated-types typing-inspection

# The models that the explorer shows where there are none of one's own, from the runs of the studies.
zoo: .venv/installed
	$(BIN)/workbench study run chain-layers increment-lengths multiplication-methods arithmetic-methods lis-methods
	$(BIN)/workbench study run sorting-lengths box-moves --scale day
	rm -rf app/zoo.new
	$(BIN)/workbench study zoo --out app/zoo.new
	rm -rf app/zoo
	mv app/zoo.new app/zoo

# Every notebook anew from its text source, with its outputs: about fifteen minutes.
notebooks: .venv/installed
	for source in notebooks/*.py; do $(BIN)/jupytext --to ipynb --execute $$source || exit; done
	$(BIN)/python -m tests.notebook_pictures

lab: .venv/installed
	$(BIN)/jupyter lab notebooks

clean:
	rm -rf .venv demo site .pytest_cache .mypy_cache .ruff_cache

# torch comes first and alone: the constraint keeps the CPU build that later requirements then accept as it is.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "workbench needs Python 3.11 or newer; say which with make PYTHON=…")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip uninstall --quiet --yes workbench 2>/dev/null   # what this distribution was called once
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# Triton, for whose interpreter no GPU is needed: where PyTorch brought its own, that one stays.
.venv/kernels: .venv/installed
	$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/pip install --quiet --constraint constraints.txt --editable '.[kernels]'
	touch $@

.venv/docs: .venv/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@
