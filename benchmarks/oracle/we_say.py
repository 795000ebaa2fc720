"""What this product makes of a project, as JSON, in the form that `sqlmesh_says` has.

`python -m benchmarks.oracle.we_say FOLDER START END EXECUTION_TIME`
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.macros.variables import substitute_time_variables, time_variable_values
from vde_dagster.project.model import Model

PACKAGES = "PACKAGES_OF_PROJECTS"
"""The environment variable with the folder of packages that the projects' own code imports."""


def main(folder: str, start: str, end: str, now: str) -> int:
    """Print one line of JSON."""
    sys.path += os.environ.get(PACKAGES, "").split(os.pathsep)  # Behind the product's own.
    began = time.perf_counter()
    said: dict[str, Any] = {"models": {}, "tests": [], "problem": None, "problems": []}
    day = timedelta(days=1)
    values = time_variable_values(_instant(start), _instant(end) + day, _instant(now))
    try:
        project = load_project(Path(folder), strict=False, use_cache=False)
        said["problems"] = [_problem(error) for error in project.problems]
        said["models"] = {_written(n): _model(m, values) for n, m in project.models.items()}
        said["tests"] = sorted(test.name for test in project.tests)
        said["namespace"] = project.settings.default_namespace
    except ProjectError as error:
        said["problems"] = [_problem(one) for one in error.mistakes or (error,)]
    except Exception:
        said["problem"] = traceback.format_exc()[-2000:]
    said["seconds"] = time.perf_counter() - began
    print("\n" + json.dumps(said, default=str), flush=True)
    return 0


def _written(name: ModelName) -> str:
    """Write a name so that dots in its parts do not part it."""
    return ".".join(quote(part) for part in (name.namespace, name.name) if part)


def _instant(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=timezone.utc)


def _problem(error: ProjectError) -> dict[str, Any]:
    where = error.location
    return {
        "message": error.message,
        "file": None if where is None else where.path.as_posix(),
        "line": None if where is None else where.line,
    }


def _model(model: Model, values: dict[str, str]) -> dict[str, Any]:
    written = model.query if model.kind.is_read else model.audits[0].query
    query = None if written is None else substitute_time_variables(written, values)
    return {
        "file": model.location.path.as_posix(),
        "kind": model.kind.name,
        "depends_on": sorted(map(_written, model.depends_on)),
        "audits": sorted(
            f"{a.name}({', '.join(map('='.join, a.arguments))})" for a in model.audits
        ),
        "cron": model.cron,
        "owner": model.owner,
        "tags": sorted(model.tags),
        "description": model.description,
        "grains": sorted(", ".join(grain) for grain in model.grains),
        "columns": {column.name: column.type for column in model.columns},
        "python": model.python is not None,
        "query": query,
    }


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
