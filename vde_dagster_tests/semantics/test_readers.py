"""One reader of SQL: SQLGlot's own parser reads some of Spark's texts as others."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sqlglot import exp
from sqlglot.errors import ParseError

import vde_dagster
from vde_dagster.planning.kinds.simple import proven_keys
from vde_dagster.project.python.sqlmesh.dialect import parse, parse_one
from vde_dagster.sql.reading import parse_plain, parse_type
from vde_dagster.sql.trees import plain_dialect

PACKAGE = Path(vde_dagster.__file__).parent
PARSERS = frozenset(
    {"parse", "parse_one", "maybe_parse", "transpile", "tokenize", "condition", "parse_into"}
    | {"to_table", "to_column", "expand", "replace_placeholders", "merge", "update", "delete"}
)
"""Functions of SQLGlot that read a text with SQLGlot's parser or tokenizer."""
BUILDERS = frozenset({"select", "and_", "or_", "not_", "func", "case", "from_"})
"""Functions of SQLGlot that read a text where they are given one in place of a tree."""
READERS = {PACKAGE / "sql" / "reading.py"}


def parses(path: Path) -> list[str]:
    """The places of a module that read SQL by SQLGlot's own parser."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sqlglot":
            found += [f"{path}:{node.lineno} {a.name}" for a in node.names if a.name in PARSERS]
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, name = node.func.value, node.func.attr
        module = owner.id if isinstance(owner, ast.Name) else ""
        given = [one for one in node.args if isinstance(one, ast.Constant | ast.JoinedStr)]
        is_text = any(not isinstance(g, ast.Constant) or isinstance(g.value, str) for g in given)
        if module in ("sqlglot", "exp", "expressions", "glot") and (
            name in PARSERS or (name in BUILDERS and is_text)
        ):
            found.append(f"{path}:{node.lineno} {module}.{name}")
        if name in ("parser", "parse_into") or (
            name == "parse" and isinstance(owner, ast.Call) and "parser" in ast.dump(owner)
        ):
            found.append(f"{path}:{node.lineno} .{name}")
    return found


def test_only_the_projects_reader_parses_sql() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert all(parses(path) for path in READERS)
    assert [place for path in modules if path not in READERS for place in parses(path)] == []


@pytest.mark.parametrize(
    "line",
    [
        "from sqlglot import parse_one",
        "import sqlglot\nsqlglot.parse_one(text)",
        "from sqlglot import exp\nexp.maybe_parse(text)",
        "from sqlglot import exp\nexp.condition(text)",
        "from sqlglot import exp\nexp.select('a')",
        "from sqlglot import exp\nexp.and_(f'{a} = 1')",
        "dialect.parser().parse(tokens)",
    ],
)
def test_another_parser_is_found(tmp_path: Path, line: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(line)
    assert parses(path)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'C''1'", "C'1"),
        ("'a''b''c'", "a'b'c"),
        ("''''", "'"),
        ('"a""b"', 'a"b'),
        ('"it\'s"', "it's"),
        (r"'a\'b''c'", "a'b'c"),
    ],
)
def test_a_doubled_quote_is_a_quote_for_macros_and_rules(written: str, value: str) -> None:
    for dialect in ("spark", plain_dialect("spark")):
        read = parse_plain(written, dialect)
        assert isinstance(read, exp.Literal)
        assert read.this == value
    assert parse_one(written, "spark").this == value
    assert [one.this for one in parse(f"{written}; {written}", "spark")] == [value, value]


def test_strings_apart_are_joined_without_a_quote() -> None:
    assert parse_plain("'a' 'b'").sql("spark") == "CONCAT('a', 'b')"
    assert parse_plain("'C''1'", "duckdb").this == "C'1"


def test_operators_are_grouped_as_spark_groups_them() -> None:
    tree = parse_plain("a | b & c")
    assert isinstance(tree, exp.BitwiseOr)
    assert isinstance(tree.expression.unnest(), exp.BitwiseAnd)


def test_a_comment_within_a_type_keeps_its_quotes() -> None:
    made = parse_type("STRUCT<a: INT COMMENT 'C''1', b: STRING COMMENT \"x\"\"y\">").sql("spark")
    assert made == r"STRUCT<a: INT COMMENT 'C\'1', b: STRING COMMENT 'x" + '"' + "y'>"


@pytest.mark.parametrize("name", ["select", "not", "from", "order", "date", "struct", "void"])
def test_a_field_of_a_struct_may_have_the_name_of_a_keyword(name: str) -> None:
    for text in (
        f"struct<{name}: int, b: map<int, array<string>>>",
        f"struct<b: int, {name} date>",
    ):
        fields = [one.name for one in parse_type(text).expressions]
        assert sorted(fields) == sorted([name, "b"])


def test_a_type_that_is_read_in_part_is_an_error() -> None:
    with pytest.raises(ParseError, match="a part of the type 'struct<a: int, b-c: int>'"):
        parse_type("struct<a: int, b-c: int>")


def test_the_type_of_null_within_a_type_keeps_its_place() -> None:
    made = parse_type("struct<void: void, a: array<VOID>, m: map<string, void>>").sql("spark")
    assert made == "STRUCT<void: NULL, a: ARRAY<NULL>, m: MAP<STRING, NULL>>"


def test_an_audit_with_a_doubled_quote_proves_its_keys() -> None:
    query = "SELECT 'it''s', a, COUNT(*) FROM @this_model GROUP BY a HAVING COUNT(*) > 1"
    assert proven_keys(query) == (frozenset({"a"}),)
    assert proven_keys(query.replace("COUNT(*) >", "COUNT(a) >")) == ()
    assert proven_keys(query.replace("COUNT(*) >", "COUNT(* EXCEPT (a)) >")) == ()
