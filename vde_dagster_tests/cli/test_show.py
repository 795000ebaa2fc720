"""`vde show`: rows of any version, chosen and sorted, without Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import Prepared, ProjectFolder
from vde_dagster_tests.serve.shops import publish, publish_twice

TWICE = """
    MODEL (name marts.twice, kind FULL);
    SELECT number AS id, amount AS a, amount AS b FROM raw.orders
"""


def _published(root: Path) -> None:
    folder = publish_twice(root)
    folder.write("models/twice.sql", TWICE)
    publish(folder, 4)


@pytest.fixture
def shop(prepared: Prepared) -> ProjectFolder:
    """Four versions of production, in real tables."""
    return prepared(_published)


def _shown(vde: Vde, shop: ProjectFolder, *words: str) -> list[list[Any]]:
    ended = vde("show", *words, "--project", shop.root, "--json")
    assert ended.code == 0, ended.err
    rows: list[list[Any]] = ended.json["rows"]
    return rows


OLD_DAYS = ["marts.daily", "-e", "prod@1", "--where"]
CHOSEN = [
    (["raw.orders", "--order-by", "number", "--limit", "2"], [[7, 1, "5.50"], [7, 2, "7.25"]]),
    (["raw.orders", "-e", "prod@1", "--where", "id = 1"], [[1, 7, "5.50", "a"]]),
    (["RAW.Orders", "--columns", "Amount, NUMBER", "--where", "tenant IS NULL"], [["1.00", 4]]),
    (["raw.orders", "--columns", "number", "--order-by", "-tenant,number"], [[3], [1], [2], [4]]),
    ([*OLD_DAYS, "day = '2024-01-02' AND amount > 6"], [["2024-01-02", 2, "7.25"]]),
    ([*OLD_DAYS, "day >= '2024-01-03'"], []),
    (["marts.twice", "--where", "b > 2 AND A < 7", "--columns", "b,id"], [["5.50", 1]]),
    (["marts.twice", "--order-by", "-B", "--limit", "1"], [[2, "7.25", "7.25"]]),
]


@pytest.mark.parametrize(("words", "expected"), CHOSEN)
def test_rows_are_those_of_the_version_under_its_columns(
    words: Sequence[str], expected: list[list[Any]], shop: ProjectFolder, vde: Vde
) -> None:
    assert _shown(vde, shop, *words) == expected


def test_types_are_sparks_and_people_read_a_table(shop: ProjectFolder, vde: Vde) -> None:
    found = vde("show", "raw.orders", "--project", shop.root, "--json").json
    assert [column["type"] for column in found["columns"]] == ["BIGINT", "INT", "DECIMAL(10,2)"]
    assert found["version"] == 4
    told = vde("show", "raw.orders", "--limit", "2", "--project", shop.root)
    assert "7.25" in told.out
    assert "2 rows of version 4; for more, raise --limit" in told.err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["marts.sums"], "has no table and can only be read by an engine", "vde query prod "),
        (["marts.sums", "-e", "prod@4"], "can only be read by an engine", "vde query prod@4 "),
        (["raw.order"], "does not contain the model 'raw.order'", "raw.orders"),
        (["raw.orders", "-e", "prod@9"], "no version 9", "its versions are 1"),
        (["raw.orders", "-e", "qa"], "environment 'qa' does not exist", "vde apply qa"),
        (["raw.orders", "--columns", "nummer"], "no column 'nummer'", "number"),
        (["raw.orders", "--order-by", "-nummer"], "no column 'nummer'", "number"),
        (["raw.orders", "--where", "nummer = 1"], "the column 'nummer' does not exist", "number"),
        (["raw.orders", "--where", "number = 'x'"], "number is of type int", "columns are"),
        (["raw.orders", "--where", "number ="], "the filter", ""),
    ],
)
def test_what_cannot_be_shown_is_one_message_with_a_hint(
    words: Sequence[str], message: str, hint: str, shop: ProjectFolder, vde: Vde
) -> None:
    ended = vde("show", *words, "--project", shop.root)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
    assert hint in " ".join(ended.err.split())


@pytest.mark.proof
def test_neither_spark_nor_dagster_is_imported(shop: ProjectFolder) -> None:
    code = (
        "import sys; from vde_dagster.cli.app import call\n"
        f"assert call(['show', 'raw.orders', '--project', {str(shop.root)!r}]) == 0\n"
        "found = {'pyspark', 'dagster'} & sys.modules.keys()\n"
        "assert not found, found"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
