"""`vde changes`: a table for people, rows for programs, cursors for consumers."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.execution.changes.reading import Changes
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

DOCS = Path(__file__).parents[2] / "docs/changes.md"
ROWS = """MODEL (name shop.rows, kind FULL, grain id);
SELECT * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c') AS t(id, name)"""


@pytest.mark.spark
def test_changes_are_shown_and_consumed(
    tmp_path_factory: pytest.TempPathFactory,
    spark_engine: SparkEngine,
    vde: Vde,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = ProjectFolder(tmp_path_factory.mktemp("changes") / "shop", {"models/rows.sql": ROWS})
    at = ("changes", "prod", "shop.rows", "--project", shop.root)

    def publish() -> None:
        with Workspace.open(shop.root) as workspace:
            workspace.apply(workspace.plan("prod"))

    publish()
    first = vde(*at, "--cursor", "copy", "--commit", "--json")
    assert first.code == 0, first.err
    assert [row[0] for row in first.json["rows"]] == ["insert"] * 3
    shop.edit("models/rows.sql", "(2, 'b'), (3, 'c')", "(2, 'B'), (4, 'd')")
    publish()
    found = vde(*at, "--cursor", "copy", "--json").json
    assert (found["method"], found["key"], found["cursor"]["ack"]) == ("versions", ["id"], "1-2")
    assert [(row[0], *row[5:]) for row in found["rows"]] == [
        *(("update_before", 2, "b"), ("update_after", 2, "B")),
        *(("delete", 3, "c"), ("insert", 4, "d")),
    ]
    part = vde(*at, "--cursor", "copy", "--limit", "3", "--json").json
    assert (part["more"], part["cursor"]["ack"]) == (True, None)
    shown = vde(*at, "--from", "1", "--limit", "3")
    assert "update_after" in shown.out
    assert "3 changes from version 1 to 2 of 'prod', and there are more" in shown.err
    assert "_publication_id" not in shown.out
    for _ in range(2):
        assert vde(*at, "--cursor", "copy", "--ack", "1-2", "--json").json["version"] == 2
    assert vde(*at, "--cursor", "copy", "--ack", "1-3").code == 2
    other = vde(*at, "--cursor", "copy", "--ack", "0-1")
    assert (other.code, "is at version 2, not at 0" in other.err) == (1, True)
    assert "no rows changed" in vde(*at, "--cursor", "copy").out
    listed = vde(*at, "--cursors", "--json").json
    assert listed["current"] == 2
    (cursor,) = listed["cursors"]
    assert (cursor["name"], cursor["version"], cursor["behind"]) == ("copy", 2, 0)
    assert "copy" in vde(*at, "--cursors").out
    each = vde(*at, "--from", "0", "--each", "--json").json
    assert [(row[0], row[1], row[3]) for row in each["rows"]] == [
        *[("insert", 0, 1)] * 3,
        *[("update_before", 1, 2), ("update_after", 1, 2), ("delete", 1, 2), ("insert", 1, 2)],
    ]
    assert [one["to"] for one in each["steps"]] == [1, 2]
    assert "_version" in vde(*at, "--from", "0", "--each").out
    for form in ("csv", "arrow"):
        out = shop.root / f"rows.{form}"
        written = vde(*at, "--from", "1", "--format", form, "--output", out)
        assert (written.code, written.out) == (0, "")
        assert "4 changes from version 1 to 2" in written.err
    lines = (shop.root / "rows.csv").read_text().splitlines()
    assert lines[0].startswith('"_change_type","_change_ordinal","_commit_snapshot_id","_version"')
    assert [(line.split(",")[0], *line.split(",")[5:]) for line in lines[1:]] == [
        *(('"update_before"', "2", '"b"'), ('"update_after"', "2", '"B"')),
        *(('"delete"', "3", '"c"'), ('"insert"', "4", '"d"')),
    ]
    with pa.ipc.open_stream((shop.root / "rows.arrow").read_bytes()) as stream:
        rows = stream.read_all()
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        tuple(row) for row in vde(*at, "--from", "1", "--json").json["rows"]
    ]
    assert vde(*at, "--from", "2", "--format", "csv").out.splitlines() == lines[:1]
    sql = vde(*at, "--from", "1", "--sql", "--json").json["sql"]
    assert len(spark_engine.session.sql("SELECT 1").collect()) == 1
    with Workspace.open(shop.root) as workspace:
        assert len(workspace.engine().query(sql)[1]) == 4
        counted = "SELECT count(*) AS n FROM changes('shop.rows', 0, 1)"
        assert workspace.query("prod", counted).rows == ((3,),)
        assert workspace.query("prod@2", counted.replace(", 1)", ")")).rows == ((3,),)
    assert vde(*at, "--cursor", "copy", "--forget", "--json").json["forgotten"] is True
    _follow_as_the_docs_say(shop, monkeypatch)


def _follow_as_the_docs_say(shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that has what was not acknowledged is right in the end."""
    (example,) = re.findall(r"```python\n(from pathlib.*?)```", DOCS.read_text(), re.DOTALL)
    monkeypatch.chdir(shop.root)
    index: dict[int, object] = {}

    def follow() -> dict[int, object]:
        exec(example.replace("sales.orders", "shop.rows"), {"index": index})
        return {id_: row["name"] for id_, row in index.items()}  # type: ignore[index]

    assert follow() == {1: "a", 2: "B", 4: "d"}
    shop.edit("models/rows.sql", "(2, 'B')", "(2, 'b')")
    with Workspace.open(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        name = ModelName("shop", "rows")
        workspace.store.change_cursors.move("prod", name, "search", 2, 1, "dead")
        net = workspace.changes.read("prod", "shop.rows", cursor="search")
    assert [row[5] for row in net.rows] == [3, 4]
    assert follow() == {1: "a", 2: "b", 4: "d"}


def test_a_cursor_that_cannot_be_moved_adds_no_second_json_object(
    tmp_path: Path, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = ProjectFolder(
        tmp_path / "shop", {"models/rows.sql": "MODEL (name shop.rows, kind FULL); SELECT 1 AS id"}
    )
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    at = ("changes", "prod", "shop.rows", "--project", shop.root, "--cursor", "copy")
    assert vde(*at, "--ack", "0-1").code == 0
    shown = vde(*at, "--commit")
    assert (shown.code, "the cursor 'copy' is at version 1" in shown.err) == (0, True)
    assert "--ack" not in shown.err, "the command has moved the cursor"

    def moved(*_: object) -> None:
        raise ConflictError("another process moved it")

    monkeypatch.setattr(Changes, "acknowledge", moved)
    done = vde(*at, "--commit", "--json")
    assert (done.code, done.json["rows"]) == (1, [])
    assert done.err == "error: another process moved it\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--commit"], "no cursor was given"),
        (["--cursor", "a", "--commit", "--limit", "3"], "would skip changes"),
        (["--cursor", "a", "--ack", "soon"], "'soon' is not a pair of versions"),
        (["--cursor", "a", "--ack", "1-2", "--from", "1"], "read no changes"),
        (["--cursor", "a", "--ack", "1-2", "--forget"], "--ack and --forget cannot be combined"),
        (["--cursor", "a", "--forget", "--limit", "1"], "read no changes"),
        (["--cursor", "a", "--ack", "1-2", "--each"], "read no changes"),
        (["--from", "0", "--sql", "--limit", "1"], "--sql and --limit cannot be combined"),
        (["--cursors", "--commit"], "--cursors cannot be combined with other options"),
        (["--cursor", "a", "--cursors"], "--cursors cannot be combined with other options"),
        (
            ["--cursors", "--format", "csv"],
            "--format has no effect, because this command reads no rows",
        ),
        (["--from", "1", "--format", "xml"], "unknown format 'xml'"),
        (
            ["--from", "1", "--format", "csv", "--json"],
            "--json and --format csv cannot be combined",
        ),
        (
            ["--from", "1", "--format", "csv", "--sql"],
            "--format has no effect, because this command reads no rows",
        ),
        (["--from", "1", "--output", "rows"], "--output requires csv or arrow"),
        (["--from", "1", "--format", "csv", "--output", "."], ". is a folder"),
        (
            ["--from", "1", "--format", "csv", "--output", "no/where"],
            "the folder no does not exist",
        ),
    ],
)
def test_options_that_mean_nothing_together_are_refused(
    arguments: list[str], said: str, vde: Vde
) -> None:
    ended = vde("changes", "prod", "shop.rows", *arguments)
    assert ended.code == 2
    assert said in ended.err
