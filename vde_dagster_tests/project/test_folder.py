"""A folder's methods for sources: reading SQL, types and schedules."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.kinds import Kind
from vde_dagster.api.models import Model
from vde_dagster.api.sources import Folder, TableNames
from vde_dagster.api.sql import Expanded, SourceText, Token, placeholder
from vde_dagster.api.values import ModelName, Settings
from vde_dagster.project.files import Hasher
from vde_dagster.sql.trees import ParsedQueries

_PATH = Path("models.txt")
_NAMES = TableNames("lake", "shop", {})


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    settings = Settings(root=tmp_path, dialect_trust=("ODD",))
    return Folder(settings, Hasher(tmp_path), ParsedQueries())


def test_a_part_of_a_file_is_rendered_with_its_variables_and_places(folder: Folder) -> None:
    source = SourceText(_PATH, "orders =\nSELECT id FROM raw.orders WHERE day > @since")

    rendered = folder.render(source, _NAMES, 9, variables={"since": "'2024-01-01'"})

    assert rendered.sql == "SELECT id FROM raw.orders WHERE day > '2024-01-01'"
    assert rendered.reads == {ModelName("raw", "orders"): SourceLocation(_PATH, 2, 16)}
    assert folder.parsed.take(rendered.sql) is not None


def test_edited_code_is_rendered_without_expanding_its_macros(folder: Folder) -> None:
    source = SourceText(_PATH, "SELECT ODD(id) FROM t")
    code = Expanded(source.text.replace("t", placeholder("this_model")))

    rendered = folder.render(source, _NAMES, code=code, dialect="duckdb", what="test")

    assert rendered.sql == "SELECT ODD(id) FROM @this_model"
    assert folder.parsed.take(rendered.sql) is None


def test_the_hint_for_code_that_cannot_be_translated_is_the_source_s(folder: Folder) -> None:
    source = SourceText(_PATH, "SELECT HASH(id) FROM t")

    with pytest.raises(ProjectError) as usual:
        folder.render(source, _NAMES, dialect="duckdb")
    with pytest.raises(ProjectError) as own:
        folder.render(source, _NAMES, dialect="duckdb", hint=lambda name: f"trust {name}")

    assert "dialect_trust (hash)" in str(usual.value.hint)
    assert own.value.hint == "trust hash"


def test_a_statement_names_the_project_s_catalog_as_spark_does(folder: Folder) -> None:
    source = SourceText(_PATH, "GRANT SELECT ON TABLE dw.shop.orders TO ann")

    statement = folder.render_statement(source, TableNames("lake", "shop", {"dw": ""}))

    assert statement == "GRANT SELECT ON TABLE `lake`.`shop`.`orders` TO ann"


def test_a_type_that_is_none_has_the_given_place(folder: Folder) -> None:
    place = SourceLocation(_PATH, 3)

    assert folder.column_type("varchar", "postgres", place) == "STRING"
    with pytest.raises(ProjectError, match="'tree' is not a type") as error:
        folder.column_type("tree", "postgres", place)
    assert error.value.location == place


def test_a_default_cron_ticks_as_often_as_asked(folder: Folder) -> None:
    assert folder.settings.schedule() == ("0 0 * * *", None)
    assert folder.settings.schedule(at_least="0 * * * *") == ("0 * * * *", None)
    assert folder.settings.schedule("@weekly", "Asia/Tokyo", at_least="0 * * * *") == (
        "0 0 * * 0",
        "Asia/Tokyo",
    )


def test_double_quotes_mark_names_where_a_dialect_has_them_so() -> None:
    tokens = Token.split("""SELECT "a", 'b'""", "duckdb")

    assert [token.text for token in tokens if token.is_string("duckdb")] == ["'b'"]
    assert [token.text for token in tokens if token.is_string("spark")] == ['"a"', "'b'"]


def test_a_kind_is_created_by_its_name() -> None:
    kind = Kind.named("SCD_TYPE_2_BY_COLUMN", unique_key=("id",), columns=("*",))

    assert (kind.name, [c.name for c in kind.added_columns]) == (
        "SCD_TYPE_2_BY_COLUMN",
        ["valid_from", "valid_to"],
    )
    assert Model.is_for_session("SET a = 1")
    assert not Model.is_for_session("DELETE FROM t")
