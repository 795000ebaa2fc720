"""Which sessions of somebody else a project joins, without Spark."""

from __future__ import annotations

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.spark.session.session import check_catalog
from vde_dagster.spark.session.settings import SessionSettings, context_config, session_config

SETTINGS = SessionSettings(
    catalog="lake",
    state_url="postgresql://anna:ours-is-secret@db/vde",
    warehouse="s3://bucket/warehouse",
    config={"spark.sql.catalog.lake.s3.secret-access-key": "ours-is-secret"},
)
PREFIX = "spark.sql.catalog.lake"


def whole() -> dict[str, str]:
    return {**context_config(SETTINGS), **session_config(SETTINGS)}


def refusal(**changes: str | None) -> str:
    theirs = whole()
    for key, value in changes.items():
        if value is None:
            del theirs[f"{PREFIX}{key}"]
        else:
            theirs[f"{PREFIX}{key}"] = value
    with pytest.raises(UsageError) as raised:
        check_catalog(theirs, SETTINGS)
    return str(raised.value)


def test_a_session_with_the_projects_catalog_is_joined_whatever_else_it_has() -> None:
    theirs = {
        **whole(),
        "spark.driver.memory": "8g",
        "spark.sql.catalog.other.type": "hive",
        "spark.sql.catalog.lake_two": "x",
        "spark.sql.session.timeZone": "Europe/Berlin",
    }
    check_catalog(theirs, SETTINGS)


def test_every_setting_that_differs_is_named() -> None:
    text = refusal(**{".warehouse": "s3://other", ".cache-enabled": "true"})
    assert f"{PREFIX}.warehouse is 's3://other', the project's is 's3://bucket/warehouse'" in text
    assert f"{PREFIX}.cache-enabled is 'true', the project's is 'false'" in text
    assert ".uri" not in text


def test_what_only_one_of_them_sets_differs_too() -> None:
    assert f"{PREFIX}.type is not set, the project's is 'jdbc'" in refusal(**{".type": None})
    text = refusal(**{".io-impl": "com.example.IO"})
    assert f"{PREFIX}.io-impl is 'com.example.IO', the project's is not set" in text


def test_secrets_are_not_shown() -> None:
    text = refusal(
        **{
            ".jdbc.password": "theirs-is-secret",
            ".s3.secret-access-key": "theirs-is-secret",
            ".uri": "jdbc:postgresql://db/vde?user=a&password=theirs-is-secret&ssl=true",
        }
    )
    assert "is-secret" not in text
    assert f"{PREFIX}.jdbc.password is a different one" in text
    assert "user=a&password=***&ssl=***" in text
