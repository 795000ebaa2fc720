"""dbt projects with data, run by dbt-duckdb and here on Spark: are all tables equal as multisets?

    python -m benchmarks.dbt_beside PROJECT … --dbt PYTHON [--vars JSON] [--rows] [--without-tests]

PYTHON is the interpreter of an environment with dbt-core, dbt-duckdb and this one's DuckDB; a
project's packages lie in its `dbt_packages`, and its data are its seeds. Each project is copied
first. dbt builds it, and compiles it for its own empty past; then `prod` is applied here. Numbers
are equal when their first 12 digits are. Exits with the number of tables that differ.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.dbt import WITHOUT_TESTS, Dbt
from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.loading.loader import load_project


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
    said = parser.parse_args()
    if not said.projects or said.dbt is None:
        print("give folders of dbt projects with data, and --dbt; nothing was run")
        return 0
    wrong = 0
    for project in said.projects:
        with tempfile.TemporaryDirectory() as folder:
            wrong += _compare(project, Path(folder), said)
    return wrong


def _compare(project: Path, folder: Path, said: argparse.Namespace) -> int:
    dbt = Dbt(said.dbt, project, folder, said.vars)
    try:
        dbt.run("seed", "--full-refresh")  # Sources may be seeds, which dbt does not know.
        dbt.run(
            "build", "--full-refresh", *(WITHOUT_TESTS if said.without_tests else ()), fails=True
        )
        dbt.run("compile", "--full-refresh")
        _tolerate_failing_tests(dbt.root / "target/manifest.json", said.without_tests)
        settings = dbt.root / "pyproject.toml"
        settings.write_text(f'[tool.vde]\nname = "{project.name}"\nstart = "2020-01-01"\n')
        ours, refused = _run_here(dbt.root)
        theirs = dbt.tables("dbt", sorted(ours))
    finally:
        dbt.close()
    wrong = 0
    for name, rows in sorted(ours.items()):
        if name not in theirs:
            continue
        one, other = Counter(map(_plain, rows)), Counter(map(_plain, theirs[name]))
        if one != other:
            wrong += 1
            print(f"  {name}: {len(rows)} rows here, {len(theirs[name])} by dbt")
            for row in (*list(one - other)[:2], *list(other - one)[:2]) if said.rows else ():
                print(f"    {row}")
    compared = len(ours.keys() & theirs.keys())
    total = sum(len(ours[name]) for name in theirs)
    print(f"{project.name}: {compared} tables with {total} rows compared, {wrong} differ", end="; ")
    others = ", ".join(sorted(ours.keys() - theirs.keys()))
    told = f"{len(ours) - compared} not built by dbt{f' ({others})' if others else ''}"
    print(f"{refused} refused here, {told}", flush=True)
    return wrong


def _run_here(root: Path) -> tuple[dict[str, list[Any]], int]:
    refused = len(load_project(root, strict=False).problems)
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))
        shown = [m.name for m in workspace.project.models.values() if m.kind.is_shown]
        names = {f"{name.namespace}.{name.name}": name for name in shown}
        queries = {text: f"SELECT * FROM {text}" for text in names}
        rows = {t: [tuple(r) for r in workspace.query("prod", q).rows] for t, q in queries.items()}
    return rows, refused


def _tolerate_failing_tests(manifest: Path, without: bool) -> None:
    """Let tests warn, or none be: what dbt builds though a test of it fails is compared, too."""
    content = json.loads(manifest.read_text())
    for name, node in list(content["nodes"].items()):
        if node["resource_type"] == "test":
            node["config"]["severity"] = "warn"
            if without:
                del content["nodes"][name]
    manifest.write_text(json.dumps(content))


def _plain(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(map(_text, row))


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
