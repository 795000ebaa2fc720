"""Examples of names, texts, hashes and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.api.values import (
    ModelName,
    PluginSettings,
    Seam,
    Settings,
    Work,
    count,
    digest,
    expand_secrets,
    how_to_install,
    instant_text,
    json_value,
    listed,
    mask,
    names_secret,
    parse_instant,
    parse_time,
    quote,
    size,
    suggest,
    text_value,
)


def test_ModelName() -> None:
    assert ModelName.parse("Marts.Daily") == ModelName("marts", "daily")
    assert str(ModelName("marts", "daily")) == "marts.daily"


def test_PluginSettings() -> None:
    @dataclass(frozen=True)
    class PagerSettings(PluginSettings):
        """Pager."""

        most: int = 3

        def mistakes(self) -> Iterator[tuple[str, str, str | None]]:
            if self.most < 0:
                yield "most", "is negative", "write 0 or more"

    assert list(PagerSettings(most=-1).mistakes()) == [("most", "is negative", "write 0 or more")]


def test_Seam() -> None:
    sinks: Seam[type] = Seam("sinks")
    assert {"http", "postgresql"} <= set(sinks.names())


def test_Settings() -> None:
    settings = Settings(Path("shop"))
    assert settings.default_namespace == "default"
    assert settings.plugins == {}


def test_Work() -> None:
    one, two = Work(seconds=2.0, bytes=100), Work(seconds=1.0, bytes=50)
    assert one + two == Work(seconds=3.0, bytes=150)


def test_count() -> None:
    assert (count(1, "row"), count(1200, "row")) == ("1 row", "1,200 rows")


def test_digest() -> None:
    assert digest("a", "b") != digest("ab")
    assert digest("a", None) != digest("a", "")


def test_expand_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER_TOKEN", "tok-42")
    assert expand_secrets({"url": "https://x.test", "token": "${PAGER_TOKEN}"})["token"] == "tok-42"


def test_how_to_install() -> None:
    assert "vde-dagster[serve]" in how_to_install("serve") or "[serve]" in how_to_install("serve")


def test_instant_text() -> None:
    assert instant_text(datetime(2024, 1, 2, 10, 30, tzinfo=timezone.utc)) == "2024-01-02 10:30 UTC"


def test_json_value() -> None:
    assert json_value(datetime(2024, 1, 2, tzinfo=timezone.utc)) == "2024-01-02T00:00:00Z"
    assert json_value(float("nan")) == "NaN"


def test_listed() -> None:
    assert listed(["a", "b", "c"], most=2) == "a, b and 1 more"


def test_mask() -> None:
    assert mask("postgresql://me:secret@db.test/x") == "postgresql://me:***@db.test/x"


def test_names_secret() -> None:
    assert names_secret("api_token")
    assert not names_secret("endpoint")


def test_parse_instant() -> None:
    assert parse_instant("2024-01-02") == datetime(2024, 1, 2, tzinfo=timezone.utc)


def test_parse_time() -> None:
    now = datetime(2024, 1, 9, tzinfo=timezone.utc)
    assert parse_time("1 week ago", "--since", now) == datetime(2024, 1, 2, tzinfo=timezone.utc)


def test_quote() -> None:
    assert quote("marts", "a`b") == "`marts`.`a``b`"


def test_size() -> None:
    assert size(1_500_000) == "1.5 MB"


def test_suggest() -> None:
    assert suggest("dally", ["daily", "hourly"]) == "did you mean 'daily'?"


def test_text_value() -> None:
    assert (text_value(None), text_value(0.5)) == ("NULL", "0.5")
