"""Loading a code location of 1,000 models, and a sensor's tick on it when nothing changed.

The targets: 4 s for the location including `import dagster`, 0.3 s for the tick.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = 1000
TARGET_LOAD, TARGET_TICK = 4.0, 0.3

LOAD = """
import sys, time, warnings
warnings.simplefilter("ignore")
began = time.perf_counter()
import dagster
imported = time.perf_counter()
from vde_dagster.orchestration import vde_definitions
definitions = vde_definitions(sys.argv[1])
repository = definitions.get_repository_def()
built = time.perf_counter()
print(imported - began, built - began, len(repository.assets_defs_by_key))
"""

TICK = """
import sys, time, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import dagster as dg
from vde_dagster.orchestration.jobs.sensors import evaluate
from vde_dagster.project.loading.loader import project_hash
root = Path(sys.argv[1])
cursor = project_hash(root)
instance = dg.DagsterInstance.ephemeral()
began = time.perf_counter()
evaluate(root, cursor, instance)
print(time.perf_counter() - began)
"""


def write_project(root: Path, models: int) -> None:
    """Write a project of chains of ten models, every other one daily, over one seed."""
    (root / "models").mkdir(parents=True)
    (root / "seeds").mkdir()
    (root / "seeds" / "events.csv").write_text("id,amount,day\n1,2.5,2024-01-01\n")
    (root / "models" / "events.sql").write_text(
        "MODEL (name raw.events, kind SEED (path '../seeds/events.csv'), "
        "columns (id INT, amount DOUBLE, day DATE));\n"
    )
    for number in range(models - 1):
        parent = "raw.events" if number % 10 == 0 else f"m{number // 100}.t{number - 1}"
        header = f"MODEL (name m{number // 100}.t{number}, kind FULL, owner 'team:data');"
        where = ""
        if number % 2:
            header = (
                f"MODEL (name m{number // 100}.t{number}, start '2023-01-01', cron '@daily', "
                "kind INCREMENTAL_BY_TIME_RANGE (time_column day), "
                "audits (not_null(columns := (day))));"
            )
            where = " WHERE day BETWEEN @start_date AND @end_date"
        (root / "models" / f"t{number}.sql").write_text(
            f"{header}\nSELECT id, amount + {number} AS amount, day FROM {parent}{where}\n"
        )


def run(code: str, root: Path) -> tuple[float, ...]:
    """Run code in a new process and return the figures that it prints."""
    # As on any machine that ran the package before: with compiled modules.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(root.parent / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return tuple(float(word) for word in done.stdout.split())


def main() -> None:
    """Print the figures of a first and of a later start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=MODELS)
    models = parser.parse_args().models
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        write_project(root, models)
        time.sleep(2.5)  # younger files are read again, another change could look the same
        began = time.perf_counter()
        run(LOAD, root)
        cold = time.perf_counter() - began
        best = min((run(LOAD, root) for _ in range(3)), key=lambda figures: figures[1])
        tick = min(run(TICK, root)[0] for _ in range(3))
    print(f"{int(best[2])} assets, first load of a new project {cold:.1f} s (whole process)")
    print(f"location load {best[1]:.2f} s, of which import dagster {best[0]:.2f} s", end="")
    print(f" (target {TARGET_LOAD:.1f} s)")
    print(f"sensor tick, nothing changed {tick:.3f} s (target {TARGET_TICK:.1f} s)")


if __name__ == "__main__":
    main()
