"""FULL models of public projects: which of them refresh from changes, and why others do not.

    python -m benchmarks.refresh_projects [CHECKOUTS] [--dbt PYTHON-DBT PROJECT …] [--models]

CHECKOUTS has a folder `owner+name` per repository of `oracle/projects.txt`, as for the benchmark
`sqlmesh_projects`; absent ones are left out. dbt projects are compiled without a warehouse. Each
project is read in a process of its own. Raw tables without declared columns get the columns that
their readers name, as texts. Views are written where they are read. Each table's method is the one
that a fill would choose after rows of it came and went.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from benchmarks.dbt_projects import write_dbt_settings
from benchmarks.refresh_tpc import GROUPS, ROWS, find_method
from benchmarks.sqlmesh_projects import HERE, read_projects
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.execution.mistakes import models_without_errors
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.kinds.repeatable import explain_not_repeatable
from vde_dagster.planning.rendering.render import replace_tables
from vde_dagster.planning.snapshots.snapshot import Snapshot, column_types
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Model
from vde_dagster.reports.reasons import describe_reason
from vde_dagster.semantics.refresh.qualified import NotRefreshableError
from vde_dagster.sql.reading import parse_plain

Snapshots = Mapping[ModelName, Snapshot]
_SECONDS = 300
_READ_IN_PLACE = ("VIEW", "EMBEDDED")


def main() -> int:
    """Print a line for each project, the shares, and the reasons by frequency."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="?", type=Path)
    parser.add_argument("--dbt", nargs="+", type=Path, default=[], metavar="PATH")
    parser.add_argument("--models", action="store_true", help="print each model")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read is not None:
        print("\n" + json.dumps(read_project(args.read)), flush=True)
        return 0
    found: dict[str, dict[str, Any]] = {}
    print(f"{'project':62} FULL   all  some  none  not built")
    for repository, _, folder in read_projects(HERE / "projects.txt") if args.checkouts else ():
        root = args.checkouts / repository.replace("/", "+") / folder
        if root.is_dir():
            found[f"{repository} {folder}"] = _ask(f"{repository} {folder}", root)
    for project in args.dbt[1:]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / project.name
            ignored = shutil.ignore_patterns(".git", ".vde", "target", "logs", "*.duckdb")
            shutil.copytree(project, root, ignore=ignored, symlinks=True)
            write_dbt_settings(root, args.dbt[0].resolve(), "duckdb")
            found[f"dbt {project.name}"] = _ask(f"dbt {project.name}", root)
    if not found:
        print("give checkouts of public projects; nothing was read")
        return 0
    _print(found, models=args.models)
    return 0


def read_project(root: Path) -> dict[str, Any]:
    """Return, by FULL model of a project, its tables with a key or a reason."""
    try:
        project = load_project(root, strict=False, use_cache=False)
    except ProjectError as error:
        return {"problem": error.message}
    models = models_without_errors(project)
    guessed: set[ModelName] = set()

    def columns(name: ModelName) -> tuple[tuple[str, str], ...]:
        guessed.add(name)
        return guess_columns(name, models)

    built: dict[ModelName, Snapshot] = {}

    def keep(known: Snapshots) -> tuple[()]:
        built.update(known)
        return ()

    # Models with mistakes, which guessed types may cause, are counted as not built.
    with suppress(ProjectError):
        build_snapshots(
            models,
            columns,
            scalar_functions=project.settings.scalar_functions,
            functions=project.settings.functions,
            warnings=[],
            more=keep,
        )
    full = [model for model in project.models.values() if model.kind.name == "FULL"]
    return {
        "kinds": Counter(model.kind.name for model in project.models.values()),
        "guessed": len(guessed),
        "full": {str(model.name): read_model(model, built) for model in full},
    }


def read_model(model: Model, built: Snapshots) -> dict[str, str]:
    """Return, for each table that a FULL model reads, `by` and a key, or a reason."""
    snapshot = built.get(model.name)
    if snapshot is None:
        return {"": "not built: it or a parent has a mistake, or types are unknown"}
    why = explain_not_repeatable(snapshot, built)
    if why is not None or model.query is None:
        return {"": f"it {describe_reason(why)}" if why is not None else "it has no query"}
    try:
        query = with_views(model.query, built)
        schema = {name.lower(): types for name, types in column_types(built).items()}
        read = {_name(table) for table in parse_plain(query).find_all(exp.Table)} & set(schema)
    except SqlglotError as error:
        return {"": f"not parsed: {str(error).splitlines()[0]}"}
    if not read:
        return {"": "it reads no table"}
    found = {}
    for table in sorted(read):
        try:
            found[table] = f"by {', '.join(find_method(query, schema, table))}"
        except NotRefreshableError as error:
            found[table] = str(error).removesuffix(f": {error.clause}").replace(table, "a table")
    return found


def with_views(query: str, built: Snapshots) -> str:
    """Write the queries of views where a query reads them."""

    def view(name: ModelName) -> str | None:
        model = built[name].model if name in built else None
        if model is None or model.kind.name not in _READ_IN_PLACE or model.query is None:
            return None
        return with_views(model.query, built)

    return replace_tables(query, view)


def guess_columns(
    table: ModelName, models: Mapping[ModelName, Model]
) -> tuple[tuple[str, str], ...]:
    """Return the columns that queries read from a table, as texts."""
    found: dict[str, None] = {}
    for model in models.values():
        if model.query is None or table not in model.depends_on:
            continue
        try:
            tree = parse_plain(model.query)
        except SqlglotError:
            continue
        for select in tree.find_all(exp.Select):
            begin = select.args.get("from_")
            sources = [begin.this] if begin is not None else []
            sources += [join.this for join in select.args.get("joins") or ()]
            aliases = {
                one.alias_or_name.lower()
                for one in sources
                if isinstance(one, exp.Table) and _name(one) == str(table).lower()
            }
            outputs = {one.alias.lower() for one in select.selects if isinstance(one, exp.Alias)}
            for column in select.find_all(exp.Column) if aliases else ():
                if column.parent_select is not select or isinstance(column.this, exp.Star):
                    continue
                own = len(sources) == 1 and column.name.lower() not in outputs
                if column.table.lower() in aliases or (own and not column.table):
                    found[column.name.lower()] = None
    return tuple((name, "STRING") for name in found)


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts).lower()


def _ask(name: str, root: Path) -> dict[str, Any]:
    """Read a project in a process of its own, and print its line."""
    answer = _read_apart(root)
    if "problem" in answer:
        print(f"{name:62} {' '.join(answer['problem'].split())[:100]}", flush=True)
    else:
        counts = Counter(map(_words, answer["full"].values()))
        print(_row(name, counts), flush=True)
    return answer


def _read_apart(root: Path) -> dict[str, Any]:
    here = str(Path(__file__).parent.parent.absolute())
    command = [sys.executable, "-m", "benchmarks.refresh_projects", "--read", str(root.absolute())]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            cwd=root,
            env={**os.environ, "PYTHONPATH": here, "MAX_FORK_WORKERS": "1"},
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"no answer within {_SECONDS} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            return answer
    return {"problem": f"no answer: {done.stderr.strip()[-300:]}"}


def _row(name: str, counts: Counter[str]) -> str:
    """Write the numbers of FULL models whose tables' changes are followed: all, some, none."""
    words = " ".join(f"{counts[one]:5}" for one in ("all", "some", "none"))
    return f"{name:62} {counts.total():4} {words} {counts['not built']:10}"


def _print(found: Mapping[str, Mapping[str, Any]], *, models: bool) -> None:
    total: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    projects: dict[str, set[str]] = {}
    methods: Counter[str] = Counter()
    for project, answer in found.items():
        for name, tables in answer.get("full", {}).items():
            words = _words(tables)
            total[words] += 1
            methods += Counter(_method(why) for why in tables.values() if why.startswith("by "))
            for why in {one for one in tables.values() if not one.startswith("by ")}:
                reason = re.sub(r"'[^']*'|`[^`]*`|\d+", "…", why)
                reasons[reason] += 1
                projects.setdefault(reason, set()).add(project)
            if models:
                print(f"  {name}: {words}; {tables}")
    built = total.total() - total["not built"]
    print(
        f"{_row('sum', total)}\n\nof {built} FULL models with known columns, "
        f"{total['all'] / max(1, built):.0%} refresh after changes of any table, "
        f"{total['some'] / max(1, built):.0%} of some; pairs of a model and a table: "
        + ", ".join(f"{count} {method}" for method, count in methods.most_common())
        + "\n\n models projects  reason"
    )
    for reason, count in reasons.most_common():
        print(f"{count:7} {len(projects[reason]):8}  {reason[:160]}")


def _method(followed: str) -> str:
    method = followed.removeprefix("by ")
    return method if method in (ROWS, GROUPS) else "(keys)"


def _words(tables: Mapping[str, str]) -> str:
    if any(why.startswith("not ") for why in tables.values()):
        return "not built"
    followed = sum(why.startswith("by ") for why in tables.values())
    if followed == len(tables):
        return "all"
    return "some" if followed else "none"


if __name__ == "__main__":
    sys.exit(main())
