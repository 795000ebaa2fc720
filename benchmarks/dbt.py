"""dbt in a process of its own, beside which a dbt project is read and run here."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import yaml

WITHOUT_TESTS = ("--exclude-resource-type", "test", "--exclude-resource-type", "unit_test")
"""Arguments by which `dbt build` runs no test."""
_CHILD = """
import json, os, sys
told = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.cli.main import dbtRunner
for line in sys.stdin:
    done = dbtRunner().invoke(json.loads(line))
    DuckDBConnectionManager.close_all_connections()
    found = done.result if isinstance(done.result, list) else []
    told.write(json.dumps({"ok": done.success, "error": str(done.exception or ""), "found":
        [one for one in found if isinstance(one, str)]}) + "\\n")
    told.flush()
"""


class DbtError(Exception):
    """dbt could not do what it was asked to do."""


class Dbt:
    """A copy of a dbt project, and a process of dbt-duckdb that works on it.

    Args:
        python: The interpreter of an environment with `dbt-core` and `dbt-duckdb`.
        folder: Where the copy and databases are made.
        variables: dbt's `--vars`.
    """

    def __init__(
        self, python: Path, project: Path, folder: Path, variables: Mapping[str, Any]
    ) -> None:
        self.root = folder / project.name
        ignored = shutil.ignore_patterns(".git", ".vde", "target", "logs", "*.duckdb")
        shutil.copytree(project, self.root, ignore=ignored, symlinks=True)
        self._folder, self._variables = folder, json.dumps(dict(variables))
        self._profile = yaml.safe_load((self.root / "dbt_project.yml").read_text())["profile"]
        self._log = (folder / "dbt.log").open("w")
        self._process = subprocess.Popen(
            [str(python), "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def run(self, *arguments: str, database: str = "dbt", fails: bool = False) -> Sequence[str]:
        """Run a command of dbt's, and return what `dbt ls` lists.

        Args:
            database: Name of the DuckDB file that it works on.
            fails: Whether tests that fail are no mistake.

        Raises:
            DbtError: It failed.
        """
        profiles = self._folder / f"profiles_{database}"
        profiles.mkdir(exist_ok=True)
        output = {"type": "duckdb", "path": str(self.path(database)), "threads": 2}
        outputs = {"dev": {**output, "schema": "main"}}
        whole = {self._profile: {"target": "dev", "outputs": outputs}}
        (profiles / "profiles.yml").write_text(yaml.safe_dump(whole))
        common = ("--project-dir", str(self.root), "--profiles-dir", str(profiles))
        quiet = ("--vars", self._variables, "--no-send-anonymous-usage-stats", "--no-version-check")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([*arguments, *common, *quiet]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        done: dict[str, Any] = {"ok": False, "error": "it ended", "found": []}
        if line:
            done = json.loads(line)
        if not done["ok"] and not (fails and not done["error"]):
            raise DbtError(f"dbt {' '.join(arguments)}: {done['error']}; see {self._log.name}")
        found: list[str] = done["found"]
        return found

    def path(self, database: str) -> Path:
        """Return a DuckDB file."""
        return self._folder / f"{database}.duckdb"

    def tables(self, database: str, names: Sequence[str]) -> dict[str, list[tuple[Any, ...]]]:
        """Read tables of a database, by `schema.table`, as far as they are there."""
        found = {}
        with duckdb.connect(str(self.path(database)), read_only=True) as connection:
            for name in names:
                try:
                    found[name] = connection.sql(f"SELECT * FROM {name}").fetchall()
                except duckdb.CatalogException:
                    continue
        return found

    def columns(self, database: str, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the names of the columns of tables that are there."""
        with duckdb.connect(str(self.path(database)), read_only=True) as connection:
            return {name: list(connection.sql(f"SELECT * FROM {name}").columns) for name in names}
