"""Two clones of one project over one state, and keys of people who sign."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.signatures.keys import make_key
from vde_dagster_tests.cli.conftest import vde  # noqa: F401
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import Prepared, ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

FILES = {
    "models/orders.sql": """
        MODEL (name db.orders, kind INCREMENTAL_BY_TIME_RANGE (time_column day),
          start '2024-01-01', end '2024-01-05');
        SELECT '2024-01-01' AS day, 1 AS n
    """,
    "models/total.sql": "MODEL (name db.total, kind FULL);\nSELECT sum(n) AS n FROM db.orders\n",
}


@dataclass(frozen=True)
class Team:
    """Two clones over one state.

    Args:
        root: Its folder, where keys are, too.
        reviewer: The clone in which plans are made.
        production: The clone that applies; it never gets the reviewer's edits.
    """

    root: Path
    reviewer: ProjectFolder
    production: ProjectFolder

    @property
    def file(self) -> Path:
        """The plan's file."""
        return self.root / "plan.json"

    def settings(self, signatures: str = "") -> None:
        """Write the settings of both clones."""
        text = (
            f'[tool.vde]\nid = "0123456789abcdef"\nstate_url = "sqlite:///{self.root}/state.db"\n'
            f'warehouse = "{self.root}/warehouse"\n{signatures}'
        )
        for clone in (self.reviewer, self.production):
            clone.write("pyproject.toml", text)

    def key(self, name: str) -> str:
        """Make a key, `NAME.pem`, and return its public part."""
        return make_key(self.root / f"{name}.pem")

    def trusting(self, *names: str, **required: int) -> None:
        """Trust new keys of people, and ask for signatures by environment."""
        keys = "".join(f'{name} = "{self.key(name)}"\n' for name in names)
        asked = "".join(f"{name} = {number}\n" for name, number in required.items())
        self.settings(
            f"[tool.vde.signatures.trusted]\n{keys}[tool.vde.signatures.required]\n{asked}"
        )

    def edit(self) -> None:
        """Let the reviewer's clone have what is to be published next."""
        self.reviewer.edit("models/total.sql", "sum(n) AS n", "max(n) AS n")

    def open(self) -> Workspace:
        """Open production's clone on an engine without Spark."""
        return open_fake(self.production.root)

    def shown(self) -> tuple[int, str]:
        """Return the version of production, and the text of its model `db.total`."""
        with self.open() as workspace:
            found = workspace.store.environments.get("prod")
            if found is None:
                return 0, ""
            entry = next(e for n, e in found.entries.items() if n.name == "total")
            (snapshot,) = workspace.store.snapshots.load([entry.snapshot_id]).values()
            return found.version, snapshot.model.source


@pytest.fixture
def team(prepared: Prepared) -> Team:
    """A published project in two clones."""
    return _team_in(prepared(_publish).root)


def _publish(root: Path) -> None:
    reviewer = ProjectFolder(root / "reviewer", FILES)
    shutil.copytree(reviewer.root, root / "production")
    made = _team_in(root)
    made.settings()
    # Two days ago, so that something is due.
    clock = FakeClock(datetime.now(timezone.utc) - timedelta(days=2))
    with open_fake(made.production.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("prod"))


def _team_in(root: Path) -> Team:
    return Team(root, ProjectFolder(root / "reviewer"), ProjectFolder(root / "production"))
