"""How many SQL statements the state receives: each costs more than most work in between.

These are counts, which depend on no machine. A change that needs fewer statements lowers a limit; a
change that needs more gives its reason where it raises one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, event

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.fake_workspace import open_fake, publish_shop
from vde_dagster_tests.projects import SHOP, Prepared, ProjectFolder

DAILY = "models/marts/daily.sql"


@contextmanager
def counting(workspace: Workspace) -> Iterator[Callable[[], int]]:
    """Count the statements that a workspace sends; the function returns those since its last call.

    `BEGIN` of a writing transaction counts, too.
    """
    sent: list[str] = []
    engine = workspace.store.database.engine

    def note(_connection: Connection, _cursor: object, statement: str, *_others: object) -> None:
        sent.append(statement)

    def since() -> int:
        number = len(sent)
        sent.clear()
        return number

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield since
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_a_first_plan_and_its_apply_send_few_statements(tmp_path: Path) -> None:
    root = ProjectFolder(tmp_path / "shop", SHOP).root
    with open_fake(root) as workspace, counting(workspace) as since:
        plan = workspace.plan("prod")
        planned = since()
        assert workspace.apply(plan).published
        applied = since()
        assert workspace.plan("prod").is_empty
        unchanged = since()
    assert 0 < planned <= 17
    assert 0 < unchanged <= 18, "two look up the tables in the catalog, by namespace"
    assert 0 < applied <= 291, "fills four tables and publishes five models"


def test_an_edit_sends_statements_for_what_it_builds_only(prepared: Prepared) -> None:
    folder = prepared(publish_shop)
    folder.edit(DAILY, "count(*) AS orders", "count(*) AS orders, max(amount) AS largest")
    with open_fake(folder.root) as workspace, counting(workspace) as since:
        plan = workspace.plan("dev")
        planned = since()
        assert [str(model.name) for model in plan.models if model.builds] == ["marts.daily"]
        workspace.apply(plan)
        applied = since()
    assert 0 < planned <= 29, "two look up the tables in the catalog, by namespace"
    assert 0 < applied <= 156, "fills one table and publishes five models"
