"""Edits of a dbt project: what `state:modified+` rebuilds, what is rebuilt here, and who is right.

    python -m benchmarks.dbt_costs PROJECT --dbt PYTHON [--edits FILE] [--vars JSON]

PYTHON is that of an environment with dbt-core, dbt-duckdb and the DuckDB of this one. Each edit of
FILE (by default `dbt_edits.yaml` beside this, for dbt-labs/jaffle-shop; `dbt_edits_duckdb.yaml` is
for dbt-labs/jaffle_shop_duckdb) is made in a copy of the project, selected by dbt against the
manifest before it, planned here against production as it was then, and built by dbt into a database
of its own; Spark runs once, before the edits. There every table that was skipped, here or by dbt,
is compared with the one before the edit: columns of the same names, or of the same places where one
was renamed. Tables are models that have rows of their own, seeds and snapshots among them; dbt
counts views, too. Exits with the number of tables that were skipped here although they changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import yaml

from benchmarks.dbt import WITHOUT_TESTS, Dbt
from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace

_KINDS = ("model", "seed", "snapshot")
_TYPES = tuple(one for kind in _KINDS for one in ("--resource-type", kind))
_SETTINGS = '[tool.vde]\nname = "costs"\nstart = "2020-01-01"\n\n[tool.vde.dbt]\ncompile = false\n'


def main() -> int:
    """Print a line for each edit; returns how many tables were wrongly skipped here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", nargs="?", type=Path)
    parser.add_argument("--dbt", type=Path, metavar="PYTHON")
    parser.add_argument("--edits", type=Path, default=Path(__file__).parent / "dbt_edits.yaml")
    parser.add_argument("--vars", type=json.loads, default={"load_source_data": True})
    said = parser.parse_args()
    if said.project is None or said.dbt is None:
        print("give the folder of a dbt project with data, and --dbt; nothing was run")
        return 0
    # Spark of a run that failed may still write there.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        dbt = Dbt(said.dbt, said.project, Path(folder), said.vars)
        try:
            return _Costs(dbt, Path(folder)).of(yaml.safe_load(said.edits.read_text()))
        finally:
            dbt.close()


class _Costs:
    """Counts over edits, each made from the project as it was built."""

    def __init__(self, dbt: Dbt, folder: Path) -> None:
        self._dbt, self._folder = dbt, folder
        self._wrong, self._told = 0, [0, 0, 0, 0]
        self._manifest = dbt.root / "target/manifest.json"

    def of(self, edits: list[dict[str, str]]) -> int:
        dbt = self._dbt
        dbt.run("seed", "--full-refresh")  # Sources may be seeds, which dbt does not know.
        dbt.run("build", "--full-refresh", fails=True)
        dbt.run("compile", "--full-refresh")
        (dbt.root / "pyproject.toml").write_text(_SETTINGS)
        state = self._folder / "state"
        state.mkdir()
        shutil.copy(self._manifest, state)
        print(f"{'edit':32} {'dbt':>4} {'tables':>6} {'here':>5} {'skipped':>8}  wrong")
        with Workspace.open(dbt.root) as workspace:
            workspace.apply(workspace.plan("prod"), skip_tests=True)
        for edit in edits:
            path = dbt.root / edit["file"]
            before = path.read_text()
            if edit["find"] not in before:
                raise SystemExit(f"{edit['edit']}: {edit['file']} does not have {edit['find']!r}")
            path.write_text(before.replace(edit["find"], edit["put"]))
            try:
                self._one(edit["edit"], state)
            finally:
                path.write_text(before)
        selected, tables, ours, skipped = self._told
        print(f"{f'{len(edits)} edits':32} {selected:4} {tables:6} {ours:5} {skipped:8}", end="  ")
        print(f"{self._wrong} wrong")
        return self._wrong

    def _one(self, edit: str, state: Path) -> None:
        dbt = self._dbt
        modified = ("--select", "state:modified+", "--state", str(state))
        selected = dbt.run("ls", *modified, *_TYPES, "--output", "name")
        shutil.copy(dbt.path("dbt"), dbt.path("edited"))
        dbt.run("build", "--full-refresh", *WITHOUT_TESTS, database="edited", fails=True)
        dbt.run("compile", "--full-refresh")  # A build without tests leaves them uncompiled.
        nodes = json.loads(self._manifest.read_text())["nodes"].values()
        relations = {n["name"]: _relation(n) for n in nodes if n["resource_type"] in _KINDS}
        with Workspace.open(dbt.root) as workspace:
            plan = workspace.plan("prod")
            owned = {n for n, m in workspace.project.models.items() if m.kind.owns_table}
            built = {model.name for model in plan.computed} & owned
        by_dbt = {relations[name] for name in selected if name in relations}
        changed = {name for name in owned if self._differs(name)}
        wrong, stale = changed - built, changed - by_dbt
        self._wrong += len(wrong)
        counts = (len(selected), len(by_dbt & owned), len(built), len(owned - built))
        self._told = [one + other for one, other in zip(self._told, counts, strict=True)]
        print(
            f"{edit:32} {counts[0]:4} {counts[1]:6} {counts[2]:5} {counts[3]:8}  "
            f"{', '.join(map(str, sorted(wrong))) or '-'}"
            + (f"  (stale by dbt: {', '.join(map(str, sorted(stale)))})" if stale else ""),
            flush=True,
        )

    def _differs(self, name: ModelName) -> bool:
        """Say whether a table has other rows than before, in the columns that it had then."""
        rows = []
        old, new = (_columns(self._dbt.path(one), name) for one in ("dbt", "edited"))
        if not old or not new:
            return bool(old) != bool(new)
        common = [column for column in old if column in new]
        renamed = len(old) == len(new) and len(common) < len(old)
        for database, columns in (("dbt", old), ("edited", new)):
            with duckdb.connect(str(self._dbt.path(database)), read_only=True) as connection:
                listed = ", ".join(f'"{column}"' for column in (columns if renamed else common))
                rows.append(Counter(connection.sql(f"SELECT {listed} FROM {name}").fetchall()))
        return rows[0] != rows[1] or (set(new) > set(old))


def _columns(database: Path, name: ModelName) -> list[str]:
    with duckdb.connect(str(database), read_only=True) as connection:
        try:
            return [str(row[0]) for row in connection.sql(f"DESCRIBE {name}").fetchall()]
        except duckdb.CatalogException:
            return []


def _relation(node: dict[str, Any]) -> ModelName:
    return ModelName(node["schema"], node["alias"])


if __name__ == "__main__":
    raise SystemExit(main())
