"""What `vde environments` and Dagster's page say of views that mirror environments."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.models.live import Combination
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages.environment_page import environment_metadata
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.environments.mirror import MirrorStanding, MirrorStore, WantedView
from vde_dagster.state.store import StateStore
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock, environment

VIEWS = ("a", "b", "c")


def wanted(name: str, ended: bool = False) -> list[WantedView]:
    hash_, text = (None, None) if ended else (f"hash of {name}", "{}")
    return [WantedView(TableRef(f"db__{name}", view), name, hash_, text) for view in VIEWS]


def publish(store: StateStore, name: str) -> None:
    """Publish an environment whose mirror does not follow."""

    def work(conn: object) -> None:
        made = replace(environment(name), publication_id=f"of {name}")
        store.environments.write_version(conn, made, 0)  # type: ignore[arg-type]
        store.mirror.want(conn, "lakehouse", name, wanted(name))  # type: ignore[arg-type]

    store.database.run_transaction(work)


def written(mirror: MirrorStore, view: WantedView, failure: str | None = None) -> None:
    """Say that a view was written, or why not."""
    (found,) = [one for one in mirror.views("lakehouse") if one.wanted.ref == view.ref]
    with mirror.leases.holding("mirror", "me") as held:
        mirror.begin("lakehouse", [found], "me", held.lease)
        mirror.end("lakehouse", [(view, failure)], "me")


def test_environments_say_since_when_their_mirror_is_behind(tmp_path: Path, vde: Vde) -> None:
    root = ProjectFolder(tmp_path, {"models/a.sql": "MODEL (name db.a); SELECT 1 AS a"}).root
    began = datetime.now(timezone.utc) - timedelta(minutes=90)
    workspace = Workspace.open(root, clock=FakeClock(began))
    store = workspace.store
    assert "mirror" not in vde("environments", "--project", root).out
    for name in ("prod", "dev"):
        publish(store, name)
    for view in wanted("prod"):
        written(store.mirror, view)
    first, second, _ = wanted("dev")
    written(store.mirror, first)
    written(store.mirror, second, "the catalog is on holiday")

    dev, prod = vde("environments", "--project", root, "--json").json["environments"]
    assert prod["mirror"] == {"views": 3, "behind": 0, "since": None, "seconds": 0, "failure": None}
    assert (dev["mirror"]["views"], dev["mirror"]["behind"]) == (3, 2)
    assert 90 * 60 <= dev["mirror"]["seconds"] < 100 * 60
    assert dev["mirror"]["since"].startswith(f"{began:%Y-%m-%dT%H:%M}")
    assert dev["mirror"]["failure"] == "the catalog is on holiday"
    text = " ".join(vde("environments", "--project", root).out.split())
    assert "as published" in text
    assert "2 of 3" in text
    assert "1:3" in text, "for how long"
    workspace.close()


def test_views_of_an_environment_that_is_no_more_are_told_until_they_are_gone(
    tmp_path: Path, vde: Vde
) -> None:
    root = ProjectFolder(tmp_path, {"models/a.sql": "MODEL (name db.a); SELECT 1 AS a"}).root
    store = Workspace.open(root).store
    for views in (wanted("dev"), wanted("dev", ended=True)):
        store.database.run_transaction(
            lambda conn, views=views: store.mirror.want(conn, "lakehouse", "dev", views)
        )
    told = vde("environments", "--project", root, "--json").json
    assert told["environments"] == []
    assert told["ended_mirrors"]["dev"]["behind"] == 3
    assert (
        "'dev' no longer exists; its mirror: 3 of 3" in vde("environments", "--project", root).out
    )
    for view in wanted("dev", ended=True):
        written(store.mirror, view)
    assert "dev" not in vde("environments", "--project", root).out


def test_the_page_of_an_environment_says_how_its_mirror_stands() -> None:
    made = environment("prod")
    since = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)
    behind = MirrorStanding(3, 1, since, None)

    def page(mirror: MirrorStanding | None) -> object:
        return environment_metadata(made, Combination({}), None, SHORT, mirror=mirror).get(
            "vde/mirror"
        )

    assert page(None) is None
    assert page(MirrorStanding(3, 0, None, None)) == "as published"
    assert str(page(behind)).startswith(
        "1 of 3 views outdated since 2026-01-02 03:04 UTC; current status: `vde"
    )
