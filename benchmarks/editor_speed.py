"""What the editor's desk takes for an edit: `python -m benchmarks.editor_speed [--models 1000]`.

In one process, as `vde lsp` does it: the first look at a project, then edits of the model that most
others read. Goals for 1,000 models: 0.3 s until the file's mistakes are known, 1 s until those of
all that follow are, 400 MB. Seconds of CPU, and by the clock in brackets.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.planning_scale import publish_without_rows, write_project
from vde_dagster.execution.workspace import Workspace
from vde_dagster.programs.editor.lenses import lenses
from vde_dagster.programs.editor.navigation import find_references
from vde_dagster.programs.editor.session import EditorSession
from vde_dagster.programs.editor.words.completion import completions
from vde_dagster.project.dag import descendants
from vde_dagster.sql.trees import collect_rarely


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    said = parser.parse_args()
    collect_rarely()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_project(root, said.models)
        with Workspace.open(root) as workspace:
            publish_without_rows(workspace)
            models = workspace.project.models
            most = max(models, key=lambda name: len(descendants(models, [name])))
            file = root / models[most].location.path
        path, text = f"models/{file.name}", file.read_text()
        session = EditorSession(root)
        print(f"{said.models:,} models; seconds of CPU (by the clock)")

        def typed(new: str) -> None:
            session.set_text(path, new)
            session.read()

        added = text.replace("\nFROM ", ",\n  7 AS added\nFROM ", 1)
        _row("first look", session.read)
        _row("its plan", session.preview_plan)
        _row("a column more: mistakes of all files", lambda: typed(added))
        _row("its plan, and the lens", lambda: lenses(session.read(), session.preview_plan(), path))
        _row("a text that cannot be read", lambda: typed(text.replace("FROM ", "FRM (", 1)))
        before = session.read().snapshots
        _row("other rows: all that follows anew", lambda: typed(f"{text.rstrip()}\nLIMIT 3\n"))
        changed = sum(before[name].id != one.id for name, one in session.read().snapshots.items())
        print(f"  {changed:,} models have another version")
        _row("its plan, and the lens", lambda: lenses(session.read(), session.preview_plan(), path))
        _row(
            "a column less: what that breaks", lambda: typed(text.replace("x.qty AS qty", "1 AS q"))
        )
        typed(text)
        at = text.index("AS amount") + 4
        _row("first uses of a column", lambda: find_references(session.symbols(), path, at))
        _row("uses of it again", lambda: find_references(session.symbols(), path, at))
        _row(
            "a completion",
            lambda: completions(session.last_reading(), path, text.index("FROM ") + 5),
        )
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{'peak memory':40} {size:6.0f} MB")
        session.close()
    return 0


def _row(title: str, work: Callable[[], object]) -> None:
    cpu, clock = time.process_time(), time.perf_counter()
    work()
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    print(f"{title:40} {cpu:6.3f} ({clock:.3f})", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
