"""An edit and its rows, by the clock: a Spark of each command's own, a warm one, and SQLMesh.

    python -m benchmarks.inner_loop [ENVIRONMENT] [--models 40] [--sides cold warm sqlmesh]
                                    [--idle 0] [--prepare]

ENVIRONMENT is a folder with SQLMesh and PySpark in it; where there is none, they are installed into
it; without one, SQLMesh is left out. All sides have the same project (ten layers of views, full and
incremental models of a few rows), the same Spark and Iceberg, and a catalog on SQLite; every step
is a whole process. The engine has been there for `--idle` seconds when the first build begins, as
it has while somebody writes a model. With `--prepare`, an archive of Spark's classes exists before
the first command, as on a machine with earlier commands or in an image. SQLMesh's state is in
DuckDB. A step that fails is said with its last error. Seconds by the clock: use a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.planning_scale import write_project
from vde_dagster.spark.session.settings import SessionSettings, context_config, packages

STEPS = {
    "build": "first build of all models",
    "query": "a query",
    "test": "one unit test",
    "edit": "a column more, and its rows in dev",
    "again": "another column more",
    "asked": "a query of dev",
    "promote": "promotion of both edits",
}
EDITS = ("edit", "again")
VDE = "from vde_dagster.cli.entry import main; main()"
CONFIG = """
gateways:
  local:
    connection:
      type: spark
      config:
{config}
    state_connection: {{type: duckdb, database: state.db}}
default_gateway: local
model_defaults: {{dialect: spark, start: 2024-01-01}}
disable_anonymized_analytics: true
"""


class Side:
    """One way to work on a copy of the project of its own."""

    def __init__(self, root: Path, models: int) -> None:
        self.root = root
        self.file = write_project(root, models)
        self.model = self.file.stem
        self.environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(root / "compiled")}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def command(self, step: str) -> list[str]:
        """Return a step's command."""
        raise NotImplementedError

    def close(self) -> None:
        """End what the side left running."""

    def run(self, step: str) -> tuple[float, str]:
        """Run a step; return its seconds, and its last words where it failed."""
        if step in EDITS:
            added = f",\n  {len(step)} AS {step}_added\nFROM "
            self.file.write_text(self.file.read_text().replace("\nFROM ", added, 1))
            time.sleep(2.1)  # Files younger than that are never trusted by their times.
        began = time.perf_counter()
        done = subprocess.run(
            self.command(step),
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        took = time.perf_counter() - began
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [
            line for line in lines if re.search(r"error\b", line, re.I) and "log level" not in line
        ]
        return took, (errors or lines)[-1].strip() if done.returncode else ""


class Ours(Side):
    """This package, with a Spark of each command's own or a warm one."""

    def __init__(self, root: Path, models: int, warm: bool, *, prepare: bool = False) -> None:
        super().__init__(root, models)
        self.warm = warm
        self.environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        (root / "pyproject.toml").write_text(
            f"[tool.vde]\nname = 'loop'\n[tool.vde.spark]\nwarm = {str(warm).lower()}\n"
        )
        (root / "tests").mkdir()
        (root / "tests" / "one.yaml").write_text(
            "test_one:\n  model: l0.m_00000\n  outputs:\n    query:\n      partial: true\n"
            "      rows:\n"
            + "".join(f"      - {{id: {number}, source: 0}}\n" for number in range(6))
        )
        if prepare:
            self._vde("engine", "prepare")
        if warm:
            self._vde("engine", "start")

    def _vde(self, *arguments: str) -> None:
        command = [sys.executable, "-c", VDE, *arguments]
        subprocess.run(command, cwd=self.root, env=self.environment, check=True, timeout=1000)

    def command(self, step: str) -> list[str]:
        """Return a call of `vde`."""
        count = f"SELECT count(*), max(amount) FROM {self.model}"
        said = {
            "build": ("apply", "prod", "--yes"),
            "query": ("query", "prod", count),
            "test": ("test",),
            "edit": ("apply", "dev", "--yes"),
            "again": ("apply", "dev", "--yes"),
            "asked": ("query", "dev", count),
            "promote": ("apply", "prod", "--yes"),
        }[step]
        return [sys.executable, "-c", VDE, *said]

    def close(self) -> None:
        """End the warm engine."""
        if self.warm:
            self._vde("engine", "stop")


class SQLMesh(Side):
    """SQLMesh on Spark and Iceberg."""

    def __init__(self, root: Path, models: int, bin_folder: Path) -> None:
        super().__init__(root, models)
        self.bin = bin_folder
        url = f"sqlite:///{root / 'catalog.db'}"
        spark = SessionSettings(str(root / "warehouse"), url, "lake")
        config = {
            **context_config(spark),
            "spark.jars.packages": ",".join(packages(spark)),
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{root / 'catalog.db'}",
            "spark.sql.catalog.lake.jdbc.schema-version": "V1",
            "spark.sql.catalog.lake.warehouse": str(root / "warehouse"),
            "spark.sql.defaultCatalog": "lake",
        }
        lines = "\n".join(f"        {key}: '{value}'" for key, value in config.items())
        (root / "config.yaml").write_text(CONFIG.format(config=lines))
        (root / "tests").mkdir()
        rows = "".join(f"      - {{id: {number}, source: 0}}\n" for number in range(6))
        (root / "tests" / "test_one.yaml").write_text(
            "test_one:\n  model: l0.m_00000\n  outputs:\n    partial: true\n    query:\n" + rows
        )

    def command(self, step: str) -> list[str]:
        """Return a call of `sqlmesh`."""
        count = f"SELECT count(*), max(amount) FROM {{}}{self.model.split('.')[1]}"
        plan = ["plan", "--no-prompts", "--auto-apply", "--skip-tests"]
        schema = self.model.split(".")[0]
        said = {
            "build": ["plan", "prod", *plan[1:]],
            "query": ["fetchdf", count.format(f"{schema}.")],
            "test": ["test"],
            "edit": ["plan", "dev", *plan[1:]],
            "again": ["plan", "dev", *plan[1:]],
            "asked": ["fetchdf", count.format(f"{schema}__dev.")],
            "promote": ["plan", "prod", *plan[1:]],
        }[step]
        return [str(self.bin / "sqlmesh"), *said]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path, nargs="?")
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--sides", nargs="*", default=["cold", "warm", "sqlmesh"])
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--idle", type=float, default=0.0, metavar="SECONDS")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        sides: dict[str, Side] = {
            name: Ours(root / name, said.models, name == "warm", prepare=said.prepare)
            for name in ("cold", "warm")
            if name in said.sides
        }
        if "sqlmesh" in said.sides and said.environment is not None:
            sides["sqlmesh"] = SQLMesh(root / "sqlmesh", said.models, _sqlmesh(said.environment))
        print(f"{said.models} models; seconds by the clock, whole processes")
        print(f"{'':36}" + "".join(f"{name:>9}" for name in sides))
        failures = []
        try:
            time.sleep(said.idle if "warm" in sides else 0.0)
            for step, title in STEPS.items():
                print(f"{title:36}", end="", flush=True)
                for name, side in sides.items():
                    took, failed = side.run(step)
                    failures += [f"{title}, {name}: {failed}"] if failed else []
                    print(f"{took:8.1f}{'!' if failed else ' '}", end="", flush=True)
                print()
        finally:
            for side in sides.values():
                side.close()
        print("\n".join(f"! {failure}" for failure in failures))
    return 0


def _sqlmesh(folder: Path) -> Path:
    """Make an environment with the newest SQLMesh, where there is none yet; return its programs."""
    programs = folder.absolute() / "bin"
    if not (programs / "sqlmesh").exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", str(folder), "-p", sys.executable], check=True)
        wanted = ["sqlmesh", "pyspark>=4.1,<4.2", "pandas<3"]
        python = str(programs / "python")
        subprocess.run([*uv, "pip", "install", "-p", python, *wanted], check=True)
    return programs


if __name__ == "__main__":
    raise SystemExit(main())
