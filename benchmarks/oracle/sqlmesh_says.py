"""What SQLMesh itself makes of a project, as JSON: run by the Python of an environment that has it.

`python sqlmesh_says.py FOLDER START END EXECUTION_TIME`. Nothing is connected to: every connection
is an empty DuckDB in memory, and environment variables that the project misses get a made-up value.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any


def main(folder: str, start: str, end: str, now: str) -> int:
    """Print one line of JSON: `models` by name, `tests`, `problem` or None, `seconds`."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    began = time.perf_counter()
    said: dict[str, Any] = {"models": {}, "tests": [], "problem": None}
    with open(os.dup(1), "w") as out, open(os.devnull, "w") as nowhere:
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            try:
                context = _open(Path(folder))
                said["models"] = {
                    name: _model(model, folder, start, end, now)
                    for name, model in context.models.items()
                }
                said["models"] |= {
                    audit.name: _standalone(audit, folder, start, end, now)
                    for audit in context.standalone_audits.values()
                }
                said["tests"] = sorted(_tests(context))
                said["dialect"] = str(context.config.model_defaults.dialect or "")
            except Exception as error:
                said["problem"] = f"{type(error).__name__}: {error}"[:2000]
        said["left_out"] = _LEFT_OUT
        said["environment"] = sorted(_GIVEN)
        said["seconds"] = time.perf_counter() - began
        print(json.dumps(said, default=str), file=out, flush=True)
    return 0


_GIVEN: set[str] = set()
_LEFT_OUT: dict[str, str] = {}


def _open(folder: Path) -> Any:
    """Load the project; give environment variables a value when they are missed."""
    import sqlmesh.core.config as all_config
    from sqlmesh import Context
    from sqlmesh.core.config import (
        BuiltInSchedulerConfig,
        DuckDBConnectionConfig,
        connection,
        scheduler,
    )
    from sqlmesh.core.config.loader import load_configs

    def in_memory(*_: Any, **__: Any) -> Any:
        return DuckDBConnectionConfig()

    connection.importlib = types.SimpleNamespace(import_module=lambda name: None)
    connection.parse_connection_config = in_memory
    # The scheduler of a paid service is not in the package.
    scheduler.SCHEDULER_CONFIG_TO_TYPE["cloud"] = lambda **_: BuiltInSchedulerConfig()
    for name in dir(all_config):
        if name.endswith("ConnectionConfig") and name != "DuckDBConnectionConfig":
            setattr(all_config, name, in_memory)

    for _ in range(30):
        try:
            configs = load_configs(None, Context.CONFIG_TYPE, [folder])
            break
        except Exception as error:
            missed = _missed(error)
            if missed is None:
                raise
            _GIVEN.add(missed)
            os.environ[missed] = "x"
    for config in configs.values():
        config.default_connection = DuckDBConnectionConfig()
        config.disable_anonymized_analytics = True
        config.model_defaults.optimize_query = False  # The author's query, not the optimiser's.
        gateways = config.gateways
        for gateway in gateways.values() if isinstance(gateways, dict) else [gateways]:
            gateway.connection = DuckDBConnectionConfig()
            gateway.state_connection = gateway.test_connection = None
            gateway.scheduler = None
    while True:  # One file that SQLMesh cannot load is left out; the others are still compared.
        try:
            return Context(paths=[str(folder)], config=configs, load_state=False)
        except Exception as error:
            found = re.search(r"from file '([^']+)'", str(error))
            if found is None or found[1] in _LEFT_OUT or len(_LEFT_OUT) > 40:
                raise
            _LEFT_OUT[found[1]] = " ".join(str(error).split())[:300]
            for config in configs.values():
                pattern = os.path.relpath(found[1], folder)
                config.ignore_patterns = [*config.ignore_patterns, pattern]


def _missed(error: BaseException | None) -> str | None:
    """Return the environment variable that a configuration wanted, if that was the mistake."""
    while error is not None:
        if isinstance(error, KeyError) and error.args and str(error.args[0]).isupper():
            return str(error.args[0])
        found = re.search(r"(?:KeyError: |'|\b)([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b", str(error))
        if found and found[1] not in os.environ:
            return found[1]
        error = error.__cause__ or error.__context__
    return None


def _model(model: Any, folder: str, start: str, end: str, now: str) -> dict[str, Any]:
    path = str(model._path or "")
    told: dict[str, Any] = {
        "file": os.path.relpath(path, folder) if path else "",
        "name": model.name,
        "kind": model.kind.name.value if model.kind.name else "CUSTOM",
        "depends_on": sorted(model.depends_on),
        "audits": sorted(_audit(name, arguments) for name, arguments in model.audits),
        "cron": model.cron,
        "owner": model.owner,
        "tags": sorted(model.tags),
        "description": model.description,
        "grains": sorted(grain.sql() for grain in model.grains),
        "columns": {
            name: kind.sql(dialect="spark")
            for name, kind in (model.columns_to_types_ or {}).items()
            if not model.is_seed or not getattr(model, "derived_columns_to_types", None)
        },
        "python": model.is_python,
        "dialect": str(model.dialect),
        "query": None,
        "query_problem": None,
    }
    if model.is_sql:
        try:
            query = model.render_query(
                start=start, end=end, execution_time=now, needs_optimization=False
            )
            told["query"] = None if query is None else query.sql(dialect=model.dialect)
        except Exception as error:
            told["query_problem"] = f"{type(error).__name__}: {error}"[:500]
        if told["query"] is None and told["query_problem"] is None:
            told["query_problem"] = "not rendered before it runs"
    return told


def _standalone(audit: Any, folder: str, start: str, end: str, now: str) -> dict[str, Any]:
    """Say of a standalone audit what is said of models, as one that is its own audit."""
    query = audit.render_audit_query(start=start, end=end, execution_time=now)
    return {
        "file": os.path.relpath(str(audit._path), folder),
        "name": audit.name,
        "kind": "AUDIT",
        "depends_on": sorted(audit.depends_on),
        "audits": [_audit(audit.name, {})],
        "cron": audit.cron,
        "owner": audit.owner,
        "tags": sorted(audit.tags),
        "description": audit.description,
        "grains": [],
        "columns": {},
        "python": False,
        "dialect": str(audit.dialect),
        "query": query.sql(dialect=audit.dialect),
        "query_problem": None,
    }


def _audit(name: str, arguments: Any) -> str:
    shown = ", ".join(f"{key}={value.sql()}" for key, value in sorted(arguments.items()))
    return f"{name}({shown})"


def _tests(context: Any) -> list[str]:
    return [str(test.test_name) for test in context._model_test_metadata]


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
