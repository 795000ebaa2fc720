"""Random histories of plans, runs, restatements and rollbacks, with tables that are shared.

The model is what each version of each environment showed when it was published. A rollback has to
show that again, all of it, and leave all others' readers alone. A run after whatever happened has
to leave rows that were made of the rows that are shown, as if all had been computed from scratch.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.test_rollback_of_data import FILES, FIRST, at
from vde_dagster_tests.execution.valued import Valued, shown
from vde_dagster_tests.projects import ProjectFolder

ENVIRONMENTS = ("prod", "dev", "test")
STEPS = 10


@dataclass
class History:
    """A project and what its environments showed.

    Args:
        workspace: The project, opened.
        folder: Its files.
        engine: Says what rows are made of.
        chance: What happens next.
        day: The day of January.
        versions: What each version showed, by environment and number.
        said: What happened, for people.
    """

    workspace: Workspace
    folder: ProjectFolder
    engine: Valued
    chance: random.Random
    day: int = 4
    versions: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def now(self) -> dict[str, dict[str, Any]]:
        """What every environment shows; new versions are kept."""
        found = {}
        for name in ENVIRONMENTS:
            current = self.workspace.store.environments.get(name)
            if current is not None:
                found[name] = shown(self.workspace, name)
                self.versions.setdefault((name, current.version), found[name])
        return found

    def step(self) -> None:
        """Let something happen, and check all that has to hold."""
        self.engine.sources += 1
        before = self.now()
        name = self.chance.choice(sorted(before))
        happens: tuple[Callable[[str, dict[str, Any]], None], ...] = (
            self.edit,
            self.edit,
            self.run,
            self.run,
            self.restate,
            self.roll_back,
            self.roll_back,
            self.roll_back,
            self.roll_back_definitions,
        )
        self.chance.choice(happens)(name, before)
        self.now()

    def edit(self, name: str, before: dict[str, Any]) -> None:
        """Publish one of three definitions of one of two models, perhaps to a new environment.

        Sometimes a day is due then: the plan makes the model before the run fills what it reads.
        """
        name = self.chance.choice(ENVIRONMENTS)
        if self.chance.random() < 0.5:
            self.run(name if name in before else "prod", before, later=False)
        else:
            self.day += 1
        word = self.chance.choice(("sum", "max", "min"))
        model = self.chance.choice(("totals", "week", "totals"))
        path = self.folder.root / f"models/{model}.sql"
        text = path.read_text()
        for known in ("sum", "max", "min"):
            text = text.replace(f"{known}(n)", f"{word}(n)")
        path.write_text(text)
        self.said.append(f"{model} is {word}, published to {name} on the {self.day}th")
        self.workspace.reload()
        self.workspace.apply(self.workspace.plan(name, now=at(self.day)))
        self.now()
        self.run(name, before, later=False)

    def run(self, name: str, before: dict[str, Any], *, later: bool = True) -> None:
        """Compute what is due, in production first: only it fills what it shows."""
        self.day += int(later and self.chance.random() < 0.6)
        for one in dict.fromkeys(("prod", name)):
            self.said.append(f"run of {one} on the {self.day}th")
            self.workspace.apply(self.workspace.plans.due(one, now=at(self.day)))
            self.now()
            self.check_from_scratch(one)

    def restate(self, name: str, before: dict[str, Any]) -> None:
        """Compute a day of the first model again, where production may: all follows."""
        day = FIRST + timedelta(days=self.chance.randrange(3))
        self.said.append(f"restatement of {day:%d} in prod")
        plan = self.workspace.plan(
            "prod", restate=["db.daily"], start=day, end=day + timedelta(days=1), now=at(self.day)
        )
        self.workspace.apply(plan)

    def roll_back(self, name: str, before: dict[str, Any]) -> None:
        """Go back, or forward again, to any version with its data."""
        current = self.workspace.store.environments.get(name)
        assert current is not None
        if current.version == 1:
            return
        version = self.chance.randrange(1, current.version)
        self.said.append(f"rollback of {name} from {current.version} to {version}")
        result = self.workspace.environments.rollback(name, version)
        after = self.now()
        assert after.pop(name) == self.versions[name, version], self.story()
        before.pop(name)
        assert after == before, self.story()
        assert result.environment.version == current.version + 1

    def roll_back_definitions(self, name: str, before: dict[str, Any]) -> None:
        """Go back to any version's definitions."""
        self.said.append(f"rollback of {name}, definitions only")
        try:
            self.workspace.environments.rollback(name, definitions_only=True)
        except UsageError:
            self.said.append("(there is no other)")
        before.pop(name)
        after = self.now()
        after.pop(name)
        assert after == before, self.story()

    def check_from_scratch(self, name: str) -> None:
        """After a run, rows are those that the definitions make of the rows that are shown."""
        current = self.workspace.store.environments.get(name)
        if current is None:
            return
        assert not self.workspace.plans.due(name, now=at(self.day)).builds, self.story()
        rows = shown(self.workspace, name)
        snapshots = self.workspace.store.snapshots.load(
            [entry.snapshot_id for entry in current.entries.values()]
        )
        for model, entry in current.entries.items():
            made = snapshots[entry.snapshot_id].fill_version[:6]
            assert {row[0] for row in rows[model.name].values()} == {made}, self.story()
        days = {
            f"2024-01-{day:02}T00:00:00Z/2024-01-{day + 1:02}T00:00:00Z"
            for day in range(1, self.day)
        }
        assert rows["daily"].keys() == rows["totals"].keys() == days, self.story()
        for day, row in rows["totals"].items():
            assert json.loads(row[1]) == rows["daily"][day], self.story()
        (week,) = rows["week"].values()
        assert json.loads(week[1]) == rows["totals"], self.story()

    def story(self) -> str:
        """Say what happened."""
        return "\n".join(self.said)


def play(root: Path, seed: int, steps: int = STEPS) -> None:
    engine = Valued()
    folder = ProjectFolder(root / f"project{seed}", FILES)
    with open_fake(folder.root, engine) as workspace:
        history = History(workspace, folder, engine, random.Random(seed))
        workspace.apply(workspace.plan("prod", now=at(history.day)))
        for _ in range(steps):
            history.step()


@pytest.mark.parametrize("seed", range(4))
def test_no_history_mixes_rows_of_one_time_with_rows_of_another(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed)


@pytest.mark.turns(10)
@pytest.mark.proof
@pytest.mark.parametrize("seed", range(100, 130))
def test_long_histories_mix_nothing_either(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 25)
