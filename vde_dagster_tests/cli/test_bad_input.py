"""Mistakes in a project: one message with file, line and hint, exit code 2, nothing changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

DAILY = "models/marts/daily_revenue.sql"

MISTAKES: dict[str, tuple[dict[str, str], str, int, str]] = {
    "syntax error": (
        {"models/marts/bad.sql": "MODEL (name marts.bad, kind FULL);\n\nSELECT 1 AS a FROM (x"},
        "models/marts/bad.sql",
        3,
        "",
    ),
    "unknown column": (
        {
            "models/marts/bad.sql": "MODEL (name marts.bad, kind FULL);\n\nSELECT\n  order_id,\n"
            "  amnt\nFROM staging.orders"
        },
        "models/marts/bad.sql",
        5,
        "amnt",
    ),
    "cycle": (
        {
            "models/a.sql": "MODEL (name x.a, kind FULL);\nSELECT id FROM x.b",
            "models/b.sql": "MODEL (name x.b, kind FULL);\nSELECT id FROM x.a",
        },
        "models/a.sql",
        1,
        "x.b",
    ),
    "duplicate name": (
        {"models/marts/second.sql": "MODEL (name staging.orders, kind FULL);\nSELECT 1 AS a"},
        "models/staging/orders.sql",
        1,
        "staging.orders",
    ),
    "unknown kind": (
        {"models/marts/bad.sql": "MODEL (\n  name marts.bad,\n  kind FULLL\n);\nSELECT 1 AS a"},
        "models/marts/bad.sql",
        3,
        "FULLL",
    ),
    "unknown property": (
        {
            "models/marts/bad.sql": "MODEL (\n  name marts.bad,\n  kind FULL,\n  ownr me\n);\n"
            "SELECT 1 AS a"
        },
        "models/marts/bad.sql",
        4,
        "ownr",
    ),
    "missing parent": (
        {
            "models/marts/bad.sql": "MODEL (name marts.bad, kind FULL);\n\nSELECT a\n"
            "FROM staging.order"
        },
        "models/marts/bad.sql",
        4,
        "staging.order",
    ),
    "wrong interval": (
        {
            "models/marts/bad.sql": "MODEL (\n  name marts.bad,\n  kind FULL,\n"
            "  start '2024-02-01',\n  end '2024-01-01'\n);\nSELECT 1 AS a"
        },
        "models/marts/bad.sql",
        5,
        "",
    ),
}


def state_of(root: Path) -> dict[str, bytes]:
    """Read every file but the cache, which holds nothing that cannot be computed again."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_relative_to(root / ".vde" / "cache")
    }


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_mistake_is_one_message_with_its_place_and_changes_nothing(
    command: str, mistake: str, template: ProjectFolder, vde: Vde
) -> None:
    files, file, line, named = MISTAKES[mistake]
    for path, text in files.items():
        template.write(path, text)
    before = state_of(template.root)
    ended = vde(command, "prod", "--project", template.root, "--json")
    assert ended.code == 2, ended.err
    error = ended.json["error"]
    assert (error["file"], error["line"]) == (file, line), error
    assert named in error["message"]
    assert error["hint"], error
    assert f"{file}:{line}" in ended.err
    assert "Traceback" not in ended.err
    after = state_of(template.root)
    assert not any(path.startswith(".vde/warehouse") for path in after)
    assert {path: text for path, text in after.items() if not path.startswith(".vde/")} == before


def test_several_mistakes_are_told_at_once(template: ProjectFolder, vde: Vde) -> None:
    for mistake in ("unknown kind", "cycle"):
        for path, text in MISTAKES[mistake][0].items():
            template.write(path, text)
    template.write("models/marts/jinja.sql", "MODEL (name marts.jinja);\nSELECT {{ x }}")
    template.write(
        "models/marts/column.sql", "MODEL (name marts.column);\nSELECT amnt FROM staging.orders"
    )
    for command in (["plan", "prod"], ["info"]):
        ended = vde(*command, "--project", template.root, "--json")
        assert ended.code == 2
        mistakes = ended.json["error"]["mistakes"]
        assert [(mistake["file"], mistake["line"]) for mistake in mistakes] == [
            ("models/a.sql", 1),
            ("models/marts/bad.sql", 3),
            ("models/marts/column.sql", 2),
            ("models/marts/jinja.sql", 2),
        ]
        assert all(mistake["message"] and mistake["hint"] for mistake in mistakes)
        assert "Traceback" not in ended.err
        for mistake in mistakes:
            assert f"error: {mistake['message']}\nhint: {mistake['hint']}\n" in ended.err
            assert f"{mistake['file']}:{mistake['line']}" in ended.err


def test_one_mistake_is_listed_as_several_are(template: ProjectFolder, vde: Vde) -> None:
    template.write("models/marts/jinja.sql", "MODEL (name marts.jinja);\nSELECT {{ x }}")
    error = vde("plan", "prod", "--project", template.root, "--json").json["error"]
    (mistake,) = error["mistakes"]
    assert mistake == {key: error[key] for key in mistake}
    assert error.keys() - mistake.keys() == {"mistakes", "failures", "log"}
    assert error["line"] == 2


@pytest.mark.parametrize("query", ["SELECT {{ x }} AS a", "SELECT @VAR('nobody') AS a"])
def test_a_model_with_jinja_or_an_unknown_variable_is_not_planned(
    query: str, template: ProjectFolder, vde: Vde
) -> None:
    template.write("models/marts/bad.sql", f"MODEL (name marts.bad);\n\n{query}")
    ended = vde("plan", "prod", "--project", template.root, "--json")
    assert ended.code == 2
    assert (ended.json["error"]["file"], ended.json["error"]["line"]) == ("models/marts/bad.sql", 3)
    assert ended.json["error"]["hint"]


def test_a_wrong_setting_is_told_with_its_line(template: ProjectFolder, vde: Vde) -> None:
    template.write("pyproject.toml", "[tool.vde]\nconcurency = 3\n")
    error = vde("plan", "prod", "--project", template.root, "--json").json["error"]
    assert error["file"] == "pyproject.toml"
    assert error["line"] == 2
    assert "concurrency" in error["hint"]


def test_a_mistake_in_a_unit_test_is_told_before_spark_starts(
    template: ProjectFolder, vde: Vde
) -> None:
    template.edit("models/tests/test_daily_revenue.yaml", "staging.orders:", "staging.others:")
    ended = vde("test", "--project", template.root, "--json")
    assert ended.code == 2
    error = ended.json["error"]
    assert error["file"] == "models/tests/test_daily_revenue.yaml"
    assert "staging.orders" in error["message"]
