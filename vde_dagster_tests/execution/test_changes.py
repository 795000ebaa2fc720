"""Changes of a shop's models as far as they are told without Spark: from metadata and the state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.errors import ConflictError, UsageError
from vde_dagster_tests.execution.test_versions import Shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(tmp_path_factory.mktemp("changes"))
    yield made
    made.workspace.close()


def test_the_same_pin_is_no_change_and_asks_nothing_of_an_engine(shop: Shop) -> None:
    before = shop.engine.statements
    found = shop.workspace.changes.read("prod", "raw.orders", since=1, until=2)
    assert (found.rows, found.changes.method, shop.engine.statements) == ((), "nothing", before)
    assert shop.workspace.changes.between("prod", "marts.daily", 2, 2).method == "nothing"


def test_another_pin_of_a_table_is_read_at_both_pins_or_by_its_commits(shop: Shop) -> None:
    changes = shop.workspace.changes.between("prod", "marts.daily", 1, 2)
    pins = [shop.pin(version, "marts.daily") for version in (1, 2)]
    assert changes.method == "versions", "these commits do not say that there are no delete files"
    assert all(f"VERSION AS OF {pin}" in changes.query for pin in pins)
    assert f"CAST({pins[1]} AS BIGINT) AS `_commit_snapshot_id`" in changes.query


def test_the_answer_says_which_publication_made_it(shop: Shop) -> None:
    changes = shop.workspace.changes.between("prod", "marts.daily", 1)
    current = shop.workspace.store.environments.get("prod")
    assert current is not None
    assert (changes.until, changes.publication_id) == (3, current.publication_id)
    assert [name for name, _ in changes.columns][:5] == [
        *("_change_type", "_change_ordinal", "_commit_snapshot_id", "_version", "_publication_id")
    ]


def test_a_view_over_what_nobody_pins_has_to_be_read_anew(shop: Shop) -> None:
    found = shop.workspace.changes.read("prod", "marts.rates", since=1, until=2)
    assert [row[0] for row in found.rows] == ["resync"]
    assert "lake.rates" in (found.changes.why or "")


def test_a_version_whose_pins_are_not_known_has_to_be_read_anew(shop: Shop) -> None:
    with shop.workspace.store.database.engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE kept AS SELECT * FROM vde_pins")
        conn.exec_driver_sql("DELETE FROM vde_pins WHERE valid_to IS NOT NULL")
    try:
        found = shop.workspace.changes.read("prod", "marts.daily", since=1, until=3)
        assert found.changes.method == "resync"
        assert "before versions pinned" in (found.changes.why or "")
        with pytest.raises(UsageError, match="before versions pinned"):
            shop.workspace.changes.read("prod", "marts.daily", since=3, until=1)
    finally:
        with shop.workspace.store.database.engine.begin() as conn:
            conn.exec_driver_sql("DELETE FROM vde_pins")
            conn.exec_driver_sql("INSERT INTO vde_pins SELECT * FROM kept")
            conn.exec_driver_sql("DROP TABLE kept")


@pytest.mark.parametrize(
    ("environment", "model", "since", "until", "said"),
    [
        ("dev", "marts.daily", 1, None, "environment 'dev' does not exist"),
        ("prod", "marts.none", 1, None, "the model marts.none is not in version"),
        ("prod", "marts.daily", 1, 9, "has no version 9"),
        ("prod", "marts.daily", 9, 3, "has no version 9"),
        ("prod", "lake.rates", 1, 2, "is not published"),
    ],
)
def test_what_cannot_be_asked_is_said(
    shop: Shop, environment: str, model: str, since: int, until: int | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        shop.workspace.changes.read(environment, model, since=since, until=until)


def test_a_consumer_goes_on_where_it_was(shop: Shop) -> None:
    workspace = shop.workspace
    first = workspace.changes.read("prod", "raw.orders", cursor="billing", until=2)
    assert (first.changes.since, first.changes.until) == (0, 2)
    again = workspace.changes.read("prod", "raw.orders", cursor="billing")
    assert again.changes.since == 0, "what was not acknowledged comes again"
    workspace.changes.acknowledge(first)
    with pytest.raises(ConflictError, match="is at version 2, not at 0"):
        workspace.changes.acknowledge(again)
    rest = workspace.changes.read("prod", "raw.orders", cursor="billing")
    assert (rest.changes.since, rest.changes.until) == (2, 3)
    workspace.changes.acknowledge(rest)
    done = workspace.changes.read("prod", "raw.orders", cursor="billing")
    assert (done.changes.since, done.changes.until, done.rows) == (3, 3, ())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the version from which to read changes is missing"),
        ({"since": 1, "cursor": "billing"}, "both since a version and since a cursor"),
    ],
)
def test_the_start_of_changes_is_given_once(
    shop: Shop, given: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        shop.workspace.changes.read("prod", "raw.orders", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "a/b"])
def test_names_of_cursors_are_plain(shop: Shop, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid cursor name"):
        shop.workspace.changes.read("prod", "raw.orders", cursor=name)


def test_changes_that_were_not_all_read_are_not_acknowledged(shop: Shop) -> None:
    found = shop.workspace.changes.read("prod", "raw.orders", since=1)
    with pytest.raises(UsageError, match="read without a cursor"):
        shop.workspace.changes.acknowledge(found)


def test_each_version_is_told_for_itself(shop: Shop) -> None:
    changes = shop.workspace.changes.between("prod", "marts.daily", 0, each=True)
    assert changes.method == "steps"
    assert [(one.since, one.until, one.method) for one in changes.steps] == [
        (0, 1, "versions"),
        (1, 2, "versions"),
        (2, 3, changes.steps[2].method),
    ]
    told = [(one["ordinal"], one["to"]) for one in changes.to_json()["steps"]]
    assert told == [(0, 1), (1, 2), (2, 3)]
    ids = [shop.workspace.store.versions.publication("prod", version) for version in (1, 2, 3)]
    assert [one.publication_id for one in changes.steps] == ids
    for ordinal, version in enumerate((1, 2, 3)):
        assert f"CAST({ordinal} AS INT) AS `_change_ordinal`" in changes.query
        assert f"VERSION AS OF {shop.pin(version, 'marts.daily')}" in changes.query


def test_versions_that_change_nothing_are_no_steps(shop: Shop) -> None:
    changes = shop.workspace.changes.between("prod", "raw.orders", 1, 2, each=True)
    assert (changes.method, changes.steps) == ("nothing", ())
    assert shop.workspace.changes.read("prod", "raw.orders", since=1, until=2, each=True).rows == ()


def test_steps_only_go_forwards(shop: Shop) -> None:
    with pytest.raises(UsageError, match="is earlier than version 3"):
        shop.workspace.changes.read("prod", "marts.daily", since=3, until=1, each=True)


def test_steps_over_what_nobody_pins_have_to_be_read_anew(shop: Shop) -> None:
    found = shop.workspace.changes.read("prod", "marts.rates", since=1, until=2, each=True)
    assert [row[0] for row in found.rows] == ["resync"]


def test_a_query_reads_changes_as_a_table(shop: Shop) -> None:
    pins = [shop.pin(version, "marts.daily") for version in (1, 2)]
    sql = "SELECT day, _change_type FROM changes('marts.daily', 1, 2) AS c JOIN marts.daily d"
    asked = shop.asked("prod", f"{sql} USING (day)")
    assert all(f"VERSION AS OF {pin}" in asked for pin in pins)
    assert "`daily` d" in asked
    each = shop.asked("prod", "SELECT * FROM changes('marts.daily', 0, each => true)")
    assert each.count("AS step") == 3
    net = shop.asked("prod", "SELECT * FROM changes('marts.daily', 1, 2, EACH => false)")
    assert "AS step" not in net
    assert shop.asked("prod@2", "SELECT * FROM Changes('marts.daily', 1)").count("VERSION") == 2
    same = shop.asked("prod", "WITH changes(a) AS (SELECT 1) SELECT a FROM changes")
    assert "VERSION" not in same


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("changes('marts.daily')", "requires a model and one or two versions"),
        ("changes('marts.daily', 1, 2, 3)", "requires a model and one or two versions"),
        ("changes('marts.daily', 'a')", "requires a model and one or two versions"),
        ("changes('marts.daily', each => true)", "requires a model and one or two versions"),
        ("changes('marts.daily', 1, each => 2)", "requires a model and one or two versions"),
        ("changes('marts.daily' 1)", "requires a model and one or two versions"),
        ("changes('marts.none', 1, 2)", "the model marts.none is not in version"),
        ("changes(marts.daily, 1, 2)", "cannot read from changes"),
        ("marts.changes('marts.daily', 1, 2)", "cannot read"),
        ("vde_changes.daily_0", "neither a model"),
    ],
)
def test_what_is_no_call_of_changes_is_said(shop: Shop, call: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        shop.workspace.query("prod", f"SELECT * FROM {call}")


@pytest.mark.proof
def test_who_comes_after_history_is_forgotten_reads_anew(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    workspace = shop.workspace
    first = workspace.changes.read("prod", "marts.daily", cursor="late", until=1)
    workspace.changes.acknowledge(first)
    shop.clock.advance(days=400)
    workspace.maintenance.janitor()
    found = workspace.changes.read("prod", "marts.daily", cursor="late")
    assert [row[:4] for row in found.rows] == [("resync", 0, None, 3)]
    assert found.changes.why == "version 1 of 'prod' is no longer kept"
    workspace.changes.acknowledge(found)
    assert workspace.changes.read("prod", "marts.daily", cursor="late").changes.method == "nothing"
    with pytest.raises(UsageError, match="no version 1"):
        workspace.changes.read("prod", "marts.daily", since=3, until=1)
    workspace.close()


@pytest.mark.proof
def test_an_environment_that_was_dropped_and_made_again_begins_empty(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    workspace = shop.workspace
    shop.apply(workspace.plan("dev"))
    workspace.changes.acknowledge(workspace.changes.read("dev", "raw.orders", cursor="copy"))
    workspace.environments.drop("dev")
    workspace.maintenance.janitor()
    with pytest.raises(UsageError, match="environment 'dev' does not exist"):
        workspace.changes.read("dev", "marts.daily", since=1)
    shop.workspace = workspace = shop.open()
    shop.apply(workspace.plan("dev"))
    current = workspace.store.environments.get("dev")
    assert current is not None
    assert current.version == 3
    found = workspace.changes.between("dev", "marts.daily", 2)
    assert (found.method, found.query.count("VERSION AS OF")) == ("versions", 1)
    assert workspace.changes.between("dev", "marts.daily", 1).method == "nothing"
    with pytest.raises(UsageError, match="is empty, because the environment was dropped then"):
        workspace.changes.between("dev", "marts.daily", 1, 2)
    followed = workspace.changes.read("dev", "raw.orders", cursor="copy").changes
    assert (followed.since, followed.until, followed.method) == (1, 3, "nothing")
    workspace.close()


@pytest.mark.proof
def test_a_consumer_follows_a_rollback_and_one_back_from_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    workspace = shop.workspace
    pins = [shop.pin(version, "marts.daily") for version in (1, 3)]
    workspace.changes.acknowledge(workspace.changes.read("prod", "marts.daily", cursor="copy"))
    for to, before, after in ((1, pins[1], pins[0]), (3, pins[0], pins[1])):
        workspace.environments.rollback("prod", to)
        told = workspace.changes.read("prod", "marts.daily", cursor="copy")
        assert (told.changes.since, told.changes.until) in ((3, 4), (4, 5))
        b, _, a = told.changes.query.partition(" UNION ALL ")
        assert (f"VERSION AS OF {before}" in b, f"VERSION AS OF {after}" in a) == (True, True)
        workspace.changes.acknowledge(told)
    workspace.close()


def test_a_frozen_environment_has_all_rows_and_then_no_change(shop: Shop) -> None:
    workspace = shop.workspace
    workspace.environments.freeze("prod@1", "closed")
    whole = workspace.changes.between("closed", "marts.daily", 0)
    assert f"VERSION AS OF {shop.pin(1, 'marts.daily')}" in whole.query
    assert workspace.changes.read("closed", "marts.daily", since=1).rows == ()
    prod = workspace.changes.between("prod", "marts.daily", 1, 2)
    assert prod.method == "versions", "freezing a version changes nothing in its environment"
