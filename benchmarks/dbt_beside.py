"""dbt projects with data, run by dbt-duckdb and here on Spark: are all tables equal as multisets?

    python -m benchmarks.dbt_beside PROJECT … --dbt PYTHON [--vars JSON] [--rows]
        [--without-tests] [--without-refused] [--trust FUNCTION …]

PYTHON is the interpreter of an environment with dbt-core, dbt-duckdb and this one's DuckDB; a
project's packages lie in its `dbt_packages`, and its data are its seeds. Each project is copied
first. dbt builds it, and compiles it for its own empty past; then `prod` is applied here. Numbers
are equal when their first 12 digits are. An instant within the run is equal to any other, as both
sides have their own clock; `dbt_scd_id`, a hash of such an instant, is not compared. Columns are
compared by name, and tables whose columns are in another order are named. With
`--without-refused` nodes that are refused here are named, and taken out with what reads them;
`--trust` sets `dialect_trust`.
Exits with the number of tables that differ.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.dbt import WITHOUT_TESTS, Dbt
from vde_dagster.errors import ProjectError
from vde_dagster.execution.workspace import Workspace


def main() -> int:
    """Compare each project; returns how many tables differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("projects", nargs="*", type=Path)
    parser.add_argument("--dbt", type=Path, metavar="PYTHON")
    parser.add_argument("--vars", type=json.loads, default={})
    parser.add_argument("--rows", action="store_true", help="print rows that differ")
    parser.add_argument("--without-tests", action="store_true", help="run dbt's tests nowhere")
    parser.add_argument("--without-refused", action="store_true", help="compare the rest")
    parser.add_argument("--trust", nargs="*", default=[], metavar="FUNCTION")
    said = parser.parse_args()
    if not said.projects or said.dbt is None:
        print("give folders of dbt projects with data, and --dbt; nothing was run")
        return 0
    wrong = 0
    for project in said.projects:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            wrong += _compare(project, Path(folder), said)
    return wrong


def _compare(project: Path, folder: Path, said: argparse.Namespace) -> int:
    dbt, began = Dbt(said.dbt, project, folder, said.vars), datetime.now(timezone.utc)
    try:
        dbt.run("seed", "--full-refresh")  # Sources may be seeds, which dbt does not know.
        dbt.run(
            "build", "--full-refresh", *(WITHOUT_TESTS if said.without_tests else ()), fails=True
        )
        dbt.run("compile", "--full-refresh")
        _tolerate_failing_tests(dbt.root / "target/manifest.json", said.without_tests)
        settings = dbt.root / "pyproject.toml"
        settings.write_text(
            f'[tool.vde]\nname = "{project.name}"\nstart = "2020-01-01"\n'
            f"dialect_trust = {json.dumps(said.trust)}\n"
        )
        refused = _take_refused_out(dbt.root) if said.without_refused else []
        ours = _run_here(dbt.root)
        theirs = dbt.tables("dbt", sorted(ours))
        dbt_columns = dbt.columns("dbt", sorted(theirs))
    finally:
        dbt.close()
    wrong = 0
    for name, (columns, rows) in sorted(ours.items()):
        if name not in theirs:
            continue
        their_names = [column.lower() for column in dbt_columns[name]]
        order = [their_names.index(column.lower()) for column in columns]
        if order != sorted(order):
            print(f"  {name}: columns in another order")
        theirs[name] = [tuple(row[index] for index in order) for row in theirs[name]]
        hashes = [index for index, column in enumerate(columns) if column == "dbt_scd_id"]
        one, other = (
            Counter(_plain(row, began, hashes) for row in both) for both in (rows, theirs[name])
        )
        if one != other:
            wrong += 1
            print(f"  {name}: {len(rows)} rows here, {len(theirs[name])} by dbt")
            for row in (*list(one - other)[:2], *list(other - one)[:2]) if said.rows else ():
                print(f"    {row}")
    compared = len(ours.keys() & theirs.keys())
    total = sum(len(ours[name][1]) for name in theirs)
    print(f"{project.name}: {compared} tables with {total} rows compared, {wrong} differ", end="; ")
    others = ", ".join(sorted(ours.keys() - theirs.keys()))
    told = f"{len(ours) - compared} not built by dbt{f' ({others})' if others else ''}"
    named = f" ({', '.join(refused)})" if refused else ""
    print(f"{len(refused)} refused here{named}, {told}", flush=True)
    return wrong


def _run_here(root: Path) -> dict[str, tuple[list[str], list[Any]]]:
    """Apply `prod`, and return columns and rows of all that it shows."""
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))
        shown = [m.name for m in workspace.project.models.values() if m.kind.is_shown]
        found = {}
        for name in shown:
            answer = workspace.query("prod", f"SELECT * FROM {name.namespace}.{name.name}")
            columns = [column for column, _ in answer.columns]
            found[f"{name.namespace}.{name.name}"] = columns, [tuple(row) for row in answer.rows]
    return found


def _mistakes(root: Path) -> list[str]:
    """Return the mistakes of a load, or else those of a plan."""
    try:
        with Workspace.open(root) as workspace:
            workspace.plan("prod")
    except ProjectError as error:
        return [str(one) for one in error.mistakes]
    return []


def _take_refused_out(root: Path) -> list[str]:
    """Take nodes that are refused here out of the manifest, with what reads them; return them."""
    path, refused = root / "target/manifest.json", []
    while problems := _mistakes(root):
        content = json.loads(path.read_text())
        told = " ".join(problems)
        gone = {
            unique_id
            for unique_id, node in content["nodes"].items()
            if (node.get("compiled_path") or "?") in told or node["original_file_path"] in told
        }
        if not gone:
            raise SystemExit(f"{root.name}: {told}")
        refused += sorted(content["nodes"][one]["name"] for one in gone)
        while more := {
            unique_id
            for unique_id, node in content["nodes"].items()
            if unique_id not in gone and gone & set(node.get("depends_on", {}).get("nodes", ()))
        }:
            gone |= more
        for part in ("nodes", "exposures", "unit_tests", "metrics", "semantic_models"):
            content[part] = {
                unique_id: node
                for unique_id, node in content.get(part, {}).items()
                if unique_id not in gone
                and not gone & set(node.get("depends_on", {}).get("nodes", ()))
            }
        path.write_text(json.dumps(content))
    return refused


def _tolerate_failing_tests(manifest: Path, without: bool) -> None:
    """Let tests warn, or none be: what dbt builds though a test of it fails is compared, too."""
    content = json.loads(manifest.read_text())
    for name, node in list(content["nodes"].items()):
        if node["resource_type"] == "test":
            node["config"]["severity"] = "warn"
            if without:
                del content["nodes"][name]
    manifest.write_text(json.dumps(content))


def _plain(row: tuple[Any, ...], began: datetime, hashes: list[int]) -> tuple[str, ...]:
    """Return a row as texts, in which all instants since the run began are one."""
    since = began - timedelta(seconds=1)
    return tuple(
        "of the run" if index in hashes or _is_since(value, since) else _text(value)
        for index, value in enumerate(row)
    )


def _is_since(value: Any, since: datetime) -> bool:
    if not isinstance(value, datetime):
        return False
    value = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    return since <= value <= datetime.now(timezone.utc)


def _text(value: Any) -> str:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return f"{float(value):.12g}"
    if isinstance(value, datetime):
        value = value if value.tzinfo is None else value.astimezone(timezone.utc)
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, date):
        return datetime.combine(value, time()).isoformat()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


if __name__ == "__main__":
    raise SystemExit(main())
