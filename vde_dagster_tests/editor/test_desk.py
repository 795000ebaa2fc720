"""The desk: what is understood of texts while they are edited equals a fresh look at them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pygls.workspace import PositionCodec

from vde_dagster.programs.editor.diagnostics import diagnostics
from vde_dagster.programs.editor.lenses import lenses
from vde_dagster.programs.editor.session import EditorSession
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder, copied_project

STAGING = "models/staging/orders.sql"
CUSTOMERS = "models/marts/customers.sql"
TOP = "models/marts/top.sql"
DAILY = "models/marts/daily.sql"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop that production shows."""
    root = tmp_path_factory.mktemp("published")
    ProjectFolder(root, SHOP)
    with open_fake(root) as workspace:
        workspace.apply(workspace.plan("prod"))
    return root


@pytest.fixture
def session(published: Path) -> Iterator[EditorSession]:
    session = EditorSession(published)
    yield session
    session.close()


def edited(session: EditorSession, path: str, old: str, new: str) -> None:
    text = (session.root / path).read_text()
    assert old in text
    session.set_text(path, text.replace(old, new))


def lens(session: EditorSession, path: str) -> str:
    (found,) = lenses(session.read(), session.preview_plan(), path)
    return found.text


def test_a_model_that_production_shows_as_it_is(session: EditorSession) -> None:
    assert lens(session, CUSTOMERS) == "same as in prod"


def test_a_remark_changes_nothing(session: EditorSession) -> None:
    edited(session, CUSTOMERS, "SELECT customer", "/* who */ SELECT customer")
    assert lens(session, CUSTOMERS) == "same as in prod"


def test_a_description_is_metadata(session: EditorSession) -> None:
    edited(session, CUSTOMERS, "One row per customer", "A row per customer")
    assert lens(session, CUSTOMERS).startswith("metadata only: nothing is computed")


def test_a_column_more_computes_its_own_table_alone(session: EditorSession) -> None:
    edited(session, CUSTOMERS, "AS revenue", "AS revenue, count(*) AS orders")
    said = lens(session, CUSTOMERS)
    assert "orders" in said
    assert "whole table" in said
    assert "1 downstream model unchanged" in said


def test_another_value_computes_what_reads_it(session: EditorSession) -> None:
    edited(session, CUSTOMERS, "sum(amount)", "max(amount)")
    said = lens(session, CUSTOMERS)
    assert "1 downstream model computed: marts.top" in said


def test_a_column_that_goes_breaks_its_readers(session: EditorSession) -> None:
    edited(session, TOP, ", rank() OVER (ORDER BY revenue DESC) AS place", "")
    (found,) = lenses(session.read(), session.preview_plan(), TOP)
    assert found.breaks
    assert found.text.startswith("breaks marts.top.place is removed")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT customer, max(amount) AS most FROM staging.orders GROUP BY customer",
            "whole table",
        ),
        ("SELECT customer FROM marts.customers", "nothing is computed"),  # Its table is there.
    ],
)
def test_a_new_model_says_so(session: EditorSession, query: str, said: str) -> None:
    path = "models/marts/new.sql"
    (session.root / path).write_text("")
    try:
        session.set_text(path, f"MODEL (name marts.new, kind FULL); {query}")
        assert lens(session, path) == f"new: {said}"
    finally:
        (session.root / path).unlink()


def test_there_is_no_plan_of_mistakes(session: EditorSession) -> None:
    edited(session, CUSTOMERS, "sum(amount)", "sum(amont)")
    assert lens(session, TOP) == "no plan: the project has mistakes"


def test_while_a_text_cannot_be_read_its_models_are_those_of_the_last_that_could(
    session: EditorSession,
) -> None:
    edited(session, STAGING, "customer, amount", "customer, amount, status")
    before = session.read()
    edited(session, STAGING, "customer, amount", "customer, (amount, status")
    reading = session.read()
    assert reading.broken == {STAGING}
    (mistake,) = reading.mistakes
    assert mistake.location is not None
    assert mistake.location.path.as_posix() == STAGING
    assert reading.snapshots.keys() == before.snapshots.keys()
    columns = next(s for n, s in reading.snapshots.items() if str(n) == "staging.orders").columns
    assert "status" in [column.name for column in columns]


EDITS = st.tuples(
    st.sampled_from([STAGING, CUSTOMERS, TOP, DAILY]),
    st.sampled_from(
        [
            ("amount", "amt"),
            ("amount", "amount + 1"),
            ("customer", "who"),
            ("revenue", "takings"),
            ("SELECT", "SELECT ("),
            ("FROM", "FRM"),
            ("MODEL (", "MODEL (("),
            ("marts.", "mart."),
            ("staging.orders", "marts.top"),
            ("FULL", "FUL"),
            (";", ""),
            ("", ""),
        ]
    ),
    st.sampled_from(["type", "save", "close"]),
)


@pytest.mark.proof
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(edits=st.lists(EDITS, min_size=1, max_size=8))
def test_after_any_edits_mistakes_are_those_of_a_fresh_load_of_the_same_texts(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, tuple[str, str], str]]
) -> None:
    root = tmp_path_factory.mktemp("edits")
    ProjectFolder(root, SHOP)
    session = EditorSession(root)
    texts = {path: (root / path).read_text() for path in (STAGING, CUSTOMERS, TOP, DAILY)}
    for path, (old, new), how in edits:
        if how == "close":
            session.set_text(path, None)
            texts[path] = (root / path).read_text()
        else:
            texts[path] = texts[path].replace(old, new, 1)
            session.set_text(path, texts[path])
        if how == "save":
            (root / path).write_text(texts[path])
        session.read()
    reading = session.read()
    fresh_root = tmp_path_factory.mktemp("fresh")
    shutil.copytree(root, fresh_root, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".vde"))
    for path, text in texts.items():
        (fresh_root / path).write_text(text)
    fresh = EditorSession(fresh_root).read()
    said = {str(mistake) for mistake in reading.mistakes}
    assert said >= {str(m) for m in fresh.project.problems}
    if not reading.broken:
        assert said == {str(mistake) for mistake in fresh.mistakes}
        assert {n: s.id for n, s in reading.snapshots.items()} == {
            n: s.id for n, s in fresh.snapshots.items()
        }


def test_a_name_with_a_null_character_is_outside_of_the_project(session: EditorSession) -> None:
    assert session.relative_path(session.root / "models/a.sql") == "models/a.sql"
    assert session.relative_path(Path("/other/a\0.sql")) is None


def test_a_file_that_is_not_text_is_told_and_hides_nothing(session: EditorSession) -> None:
    path = session.root / "models/marts/latin.sql"
    path.write_bytes("MODEL (name marts.latin);\nSELECT 'ü' AS a".encode("latin-1"))
    edited(session, CUSTOMERS, "sum(amount)", "sum(amont)")
    try:
        found = diagnostics(session.read(), PositionCodec())
    finally:
        path.unlink()
    assert found.keys() == {CUSTOMERS, "models/marts/latin.sql"}
    (one,) = found["models/marts/latin.sql"]
    assert one.range.start.line == 1
    assert "not UTF-8" in one.message


def test_warnings_of_an_earlier_text_are_not_shown(session: EditorSession) -> None:
    session.set_text(TOP, (session.root / TOP).read_text() + "WHERE revenue = NULL\n")
    reading = session.read()
    assert [one.location.path.as_posix() for one in reading.warnings] == [TOP]
    session.set_text(TOP, "-- A remark\n" + reading.text(TOP) + " AND (")
    reading = session.read()
    assert reading.broken == {TOP}
    assert not reading.warnings


def test_dashboards_that_read_what_breaks_are_named(published: Path, tmp_path: Path) -> None:
    root = copied_project(published, tmp_path / "shop")
    (root / "exposures.yaml").write_text(
        "- {name: Sales, owner: me, reads: [marts.customers.revenue]}\n"
        "- {name: Everything, url: 'https://example.com', reads: [marts.customers]}\n"
        "- {name: Other, reads: [marts.customers.customer]}\n"
    )
    session = EditorSession(root)
    ranked = "customer, revenue, rank() OVER (ORDER BY revenue DESC)"
    edited(session, TOP, ranked, "customer, rank() OVER (ORDER BY customer)")
    edited(session, CUSTOMERS, "sum(amount) AS revenue", "sum(amount) + 1 AS takings")
    told = lens(session, CUSTOMERS)
    assert "breaks marts.customers.revenue is removed; read by" in told
    assert "the dashboard Sales, the dashboard Everything" in told
    assert "Other" not in told
    session.close()
