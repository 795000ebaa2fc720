"""CUSTOM: a table that a function of the project writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vde_dagster.project.kinds.base import Property
from vde_dagster.project.kinds.incremental import (
    BATCH_SIZE,
    LOOKBACK,
    RESTATEMENT,
    Incremental,
)

if TYPE_CHECKING:
    from vde_dagster.project.reading.header import Value

Settings = tuple[tuple[str, Any], ...]


def _settings(value: Value) -> Settings:
    """Read `(name = value, …)`: texts, numbers, truth values, and lists of them."""
    return tuple(sorted((key, _plain(item)) for key, item in value.pairs()))


def _plain(item: Value) -> Any:
    if not item.tokens:
        raise item.error(f"'{item.name}' has no value", "write name = value")
    if item.tokens[0].text in "([":
        return tuple(_plain(part) for part in item.items())
    text = item.raw
    if item.tokens[0].kind == "string":
        return item.text()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return item.text()


class FoundCode(NamedTuple):
    """A function that writes tables, as its file has it.

    Args:
        entrypoint: `path.py:function` inside `code`.
        code: Text of its module and of those of the project that it imports, by path.
        outside: Hashes of what else the code may read, see `base.outside`.
    """

    entrypoint: str
    code: tuple[tuple[str, str], ...]
    outside: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Custom(Incremental):
    """Filled interval by interval; a function of the project writes the rows.

    Args:
        materialization: The function's name.
        materialization_properties: What the model says to it, by name.
        lookback: How many earlier intervals each new one fills again.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
        disable_restatement: Whether production keeps what is filled for good.
        auto_restatement_cron: When production's runs fill it again by themselves, or None.
        entrypoint: `path.py:function` inside `code`; empty until the files are read.
        code: Text of the function's module and of those of the project that it imports, by path.
        outside: Hashes of what else the code may read, see `base.outside`.
    """

    materialization: str
    materialization_properties: Settings = ()
    lookback: int = 0
    batch_size: int | None = None
    disable_restatement: bool = False
    auto_restatement_cron: str | None = None
    entrypoint: str = ""
    code: tuple[tuple[str, str], ...] = ()
    outside: tuple[tuple[str, str], ...] = ()
    name: Literal["CUSTOM"] = "CUSTOM"

    summary = "interval by interval, by a function in `materializations/`"
    restates_whole = True
    properties = (
        Property("materialization", lambda value: value.text(), {"type": "string"}, required=True),
        Property("materialization_properties", _settings, {"type": "object"}),
        LOOKBACK,
        BATCH_SIZE,
        *RESTATEMENT,
    )

    @property
    def files(self) -> tuple[str, ...]:
        """The modules that the function is made of, and the files that they may read."""
        read = (name.split(" ", 1) for name, _ in self.outside)
        return (*(path for path, _ in self.code), *(path for what, path in read if what == "file"))

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the model says to the function."""
        return dict(self.materialization_properties)
