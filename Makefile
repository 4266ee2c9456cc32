# Everything a developer does, in one word each; `make` alone lists them.
# Two of them set a fresh machine up by themselves: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
SEEDS ?= 10000
# A minute and a half on two cores at every `make check`; most planted bugs are found within a hundred.
CHECK_SEEDS ?= 300
SPARK ?= 1
PYTEST_ARGS ?=
# These wait for processes most of the time, so `make check` runs them, and the others, beside each other.
TESTS_ON_RAY := ray
TESTS_WITH_PROCESSES := bad_input chaos connectors examples kafka packaging spark_bridge
# Half of what is left, by CPU time: state, and what is proved about it.
TESTS_OF_STATE := datastream operators protocol simulation state
WITHOUT_PROCESSES = $(patsubst %,--ignore=tests/%,$(TESTS_ON_RAY) $(TESTS_WITH_PROCESSES))
TESTS_OF_THE_REST = $(WITHOUT_PROCESSES) $(TESTS_OF_STATE:%=--ignore=tests/%)
# Tests that it prints took long: mark them `slow`, where they are.
QUICK := -n 2 --dist worksteal -q -m "not slow and not spark" --durations=5 --durations-min=3

# The tests start hundreds of processes, and where this is set each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help chromium dev demo test check lint types imports short-sim sim mutants chaos partitions bench bench-quick spark-join docs site \
	wheel clean tests-on-ray tests-with-processes tests-of-state tests-of-the-rest quick

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | \
		while IFS='|' read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

# The editable install brings the dependencies and the console script; the link is what type checkers
# and import-linter can follow. The stamp is the last step, so a failed pip leaves nothing "installed".
# Never `pip install` a wheel of Tidegate into this environment: pip would write through the link.
# Of 13,000 modules most are never imported; Python compiles the others when they are.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[dev]'
	ln -sfn "$(CURDIR)" "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tidegate"
	@touch $(STAMP)

dev: $(STAMP) ## create .venv and install everything a developer needs

demo: $(STAMP) ## run the flights job on an embedded Ray (SPARK=0: without the Spark stage)
	SPARK=$(SPARK) $(BIN)/python examples/flights/main.py

# The names under which distributions know it.
CHROMIUM = $(firstword $(foreach name,chromium chromium-browser google-chrome-stable google-chrome,$(shell command -v $(name) 2>/dev/null)))
AS_ROOT = $(if $(filter 0,$(shell id -u)),,sudo --non-interactive)

chromium: ## install Chromium for the tests of the console, where there is none (Debian, as root or with sudo)
	@test -n "$(CHROMIUM)" || { \
		$(AS_ROOT) apt-get update --quiet=2 && \
		DEBIAN_FRONTEND=noninteractive $(AS_ROOT) apt-get install --yes --quiet=2 --no-install-recommends \
			chromium fonts-liberation >/dev/null; \
	} || { echo "The console is tested in a real browser: install chromium, then run this again." >&2; exit 1; }

# Some tests alone may do without the browser; if not, they say so.
test: $(if $(PYTEST_ARGS),,chromium) $(STAMP) ## install and run all tests (PYTEST_ARGS=... is handed on)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	nice -n 10 $(BIN)/python -m mypy -p tidegate

# Without its cache, which keeps the imports of a module that did not exist yet.
imports: $(STAMP)
	nice -n 10 $(BIN)/lint-imports --no-cache

short-sim: $(STAMP)
	nice -n 10 $(BIN)/tidegate sim --seeds $(CHECK_SEEDS)

tests-on-ray: $(STAMP)
	$(BIN)/python -m pytest $(TESTS_ON_RAY:%=tests/%) $(PYTEST_ARGS)

tests-with-processes: $(STAMP)
	$(BIN)/python -m pytest $(TESTS_WITH_PROCESSES:%=tests/%) $(PYTEST_ARGS)

tests-of-state: $(STAMP)
	nice -n 5 $(BIN)/python -m pytest $(TESTS_OF_STATE:%=tests/%) $(PYTEST_ARGS)

tests-of-the-rest: chromium $(STAMP)
	nice -n 5 $(BIN)/python -m pytest $(PYTEST_ARGS) $(TESTS_OF_THE_REST)

quick: $(STAMP) ## run the fast tests in two and a half minutes: no Ray, Spark, Kafka or browser
	$(BIN)/python -m pytest $(QUICK) $(WITHOUT_PROCESSES) $(PYTEST_ARGS)

# Two cores are not busy with less than all of it side by side: most of a job on Ray is waiting for processes
# to start. What needs no process of its own gives way, or a Ray would not be up within its time. One part is
# seen while it runs; each of the others prints when it is over. The guard comes last, with nothing beside it.
check: ## what CI runs: lint, types, import rules, a short simulation, all tests, the guard
	@$(MAKE) --no-print-directory --jobs chromium lint
	@log=$$(mktemp); code=0; \
	$(MAKE) --no-print-directory --jobs --keep-going --output-sync=target types imports short-sim \
		tests-on-ray tests-of-state tests-of-the-rest >"$$log" 2>&1 & others=$$!; \
	$(MAKE) --no-print-directory tests-with-processes || code=$$?; \
	wait $$others || code=$$?; \
	cat "$$log"; rm -f "$$log"; \
	$(MAKE) --no-print-directory bench-quick || code=$$?; exit $$code

sim: $(STAMP) ## simulate SEEDS=n seeds, or replay the one given as SEED=n
	$(BIN)/tidegate sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

mutants: $(STAMP) ## plant one protocol bug after the other; print the first seed that finds each
	$(BIN)/python -m tests.simulation.mutants

chaos: $(STAMP) ## damage real processes for MINUTES=n (5), as SEED=n says; kill each sink TIMES=n (20), a Spark stage STAGE_TIMES=n (2)
	$(BIN)/python -m tests.chaos.run --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.chaos.run --stage-kills $(or $(STAGE_TIMES),2) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.connectors.killing --times $(or $(TIMES),20)
	$(BIN)/python -m tests.kafka.kills --times $(or $(TIMES),20)
	$(BIN)/python -m tests.spark_bridge.killing --times $(or $(TIMES),20)

partitions: $(STAMP) ## cut links between network namespaces for up to a minute each, below a job (SCENARIOS="...")
	$(BIN)/python -m tests.ray.partitions $(SCENARIOS)

spark-join: $(STAMP) ## join epochs with 50 million rows that Spark holds; report the memory of each process
	$(BIN)/python -m benchmarks.spark.join

bench: $(STAMP) ## compare with other systems (SUITE=main, keyed, latency, nexmark ...; ROUNDS=3; OPTIONS=--quick)
	$(BIN)/python -m benchmarks.run --suite $(or $(SUITE),main) $(if $(ROUNDS),--rounds $(ROUNDS)) $(OPTIONS)

bench-quick: $(STAMP) ## compare ours with bare Python; fail on a confirmed fall by a third
	$(BIN)/python -m benchmarks.quick

docs: $(STAMP) ## draw the diagrams and pictures in docs/
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/settings_page.py
	$(BIN)/python docs/pictures.py
	$(BIN)/python -m docs.console_pictures
	$(BIN)/python docs/trace.py

# Not --quiet, since MkDocs counts only warnings that it prints. The variable silences a notice of the theme.
site: $(STAMP) ## build docs/ as a site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open build/site/index.html"

wheel: $(STAMP) ## build the wheel into dist/
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	rm -rf build

clean: ## remove build products, caches and the link (the environment itself stays)
	rm -f $(VENV)/lib/python3.*/site-packages/tidegate $(STAMP)
	rm -rf build dist tidegate.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
