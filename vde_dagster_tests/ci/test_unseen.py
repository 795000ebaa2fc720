"""Random pull requests, checked and merged in any order: nothing is published that nobody saw."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.ci.checking import check_pull_request
from vde_dagster.plugins.ci.deploying import deploy
from vde_dagster.plugins.ci.forges.choose import choose_forge
from vde_dagster.project.dag import ancestors
from vde_dagster_tests.ci.conftest import Team
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

TOP = "models/marts/top.sql"
EDITS: dict[str, list[tuple[str, str] | None]] = {
    "models/staging/orders.sql": [
        ("<> 'cancelled'", "= 'paid'"),
        ("not cancelled'", "paid'"),
        ("id, customer", "id AS id, customer"),
    ],
    "models/marts/customers.sql": [
        ("sum(amount)", "sum(amount * 2)"),
        ("sum(amount) AS revenue", "sum(amount) AS revenue, count(*) AS orders"),
        ("'One row per customer'", "'Customers'"),
    ],
    "models/marts/daily.sql": [
        ("count(*) AS orders, ", ""),
        ("sum(amount) AS revenue", "sum(amount) AS revenue, max(amount) AS most"),
    ],
    TOP: [("revenue DESC", "revenue ASC"), ("kind FULL", "kind VIEW"), None],
    "models/marts/vip.sql": [
        ("", "MODEL (name marts.vip, kind FULL); SELECT customer, revenue FROM marts.customers"),
        ("", "MODEL (name marts.vip, kind VIEW); SELECT day, revenue FROM marts.daily"),
    ],
}
"""By file: texts that are replaced, all of it where there is none; None removes the file."""

Shown = dict[str, tuple[str, str | None]]
"""By model the version of its definition, and its table."""


@dataclass
class Request:
    """A pull request: what it changes, and what people saw of it."""

    number: int
    files: dict[str, tuple[str, str] | None]
    built: Shown = field(default_factory=dict)
    before: Shown = field(default_factory=dict)

    @property
    def changed(self) -> set[str]:
        """The models that it would change in production, as people saw it."""
        names = self.built.keys() | self.before.keys()
        return {name for name in names if self.built.get(name) != self.before.get(name)}


def _shown(workspace: Workspace, name: str) -> Shown:
    found = workspace.store.environments.get(name)
    entries = found.entries.values() if found else ()
    known = workspace.store.snapshots.load([one.snapshot_id for one in entries])
    return {str(one.name): (known[one.snapshot_id].table_version, one.table_id) for one in entries}


def _check(team: Team, request: Request) -> None:
    clone = team.clone(f"pr_{request.number}")
    for path, edit in request.files.items():
        if edit is None:
            clone.remove(path)
        elif not edit[0]:
            clone.write(path, edit[1])
        else:
            clone.edit(path, *edit)
    team.commit(clone, f"pr_{request.number}")
    with open_fake(clone.root) as workspace:
        request.before = _shown(workspace, "prod")
        assert check_pull_request(workspace, choose_forge(workspace), request.number).passed
        request.built = _shown(workspace, f"pr_{request.number}")


def _deploy(team: Team, main: ProjectFolder, request: Request) -> str:
    engine = FakeSpark()
    with open_fake(main.root, engine) as workspace:
        before = _shown(workspace, "prod")
        done = deploy(workspace, choose_forge(workspace))
        after = _shown(workspace, "prod")
        assert (done.pull_requests, engine.statements) == ((request.number,), 0)
        if done.outcome == "waiting":
            assert after == before
            assert done.reasons
            workspace.apply(workspace.store.plans.load(done.plan_id), who="anna", approved=True)
        else:
            for name, shown in after.items():
                assert shown in (before.get(name), request.built.get(name)), name
            gone = before.keys() - after.keys()
            assert gone <= request.before.keys() - request.built.keys()
        moved = {
            name
            for name in before.keys() | request.before.keys()
            if before.get(name) != request.before.get(name)
        }
        # What reads another model's new rows has new ones, too, which nobody saw.
        models = workspace.project.models
        read = ancestors(models, {one for one in models if str(one) in request.changed})
        if not moved & {*request.changed, *map(str, read)}:
            assert done.outcome in ("published", "unchanged"), done.reasons
        assert workspace.plan("prod", save=False).is_empty
        return done.outcome


def _play(team: Team, seed: int) -> list[str]:
    rng = random.Random(seed)
    paths = rng.sample(sorted(EDITS), k=rng.choice([3, 4, 5]))
    requests = []
    while paths:
        own = [paths.pop() for _ in range(min(len(paths), rng.choice([1, 1, 2])))]
        requests.append(Request(len(requests) + 1, {p: rng.choice(EDITS[p]) for p in own}))
    late = {one.number for one in requests if rng.random() < 0.3}
    for one in requests:
        if one.number not in late:
            _check(team, one)
    outcomes = []
    for one in rng.sample(requests, k=len(requests)):
        if one.number in late:
            _check(team, one)
        outcomes.append(_deploy(team, team.merge(f"pr_{one.number}"), one))
    return outcomes


@pytest.mark.proof
@pytest.mark.turns(6)
@pytest.mark.parametrize("seed", range(24))
def test_what_nobody_saw_is_never_published_unasked(team: Team, seed: int) -> None:
    team.publish()
    assert _play(team, seed)


def test_some_are_published_and_some_wait(team: Team) -> None:
    team.publish()
    assert {*_play(team, 11)} == {"published", "waiting"}
