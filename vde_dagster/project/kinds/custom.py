"""Kind CUSTOM: a function of the project fills the table, interval by interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.project.kinds.base import Kind, Property

if TYPE_CHECKING:
    from vde_dagster.project.property_value import Value

Settings = tuple[tuple[str, Any], ...]


def _python_value(item: Value) -> Any:
    if not item.tokens:
        raise item.error(f"'{item.name}' has no value", "write name = value")
    if item.tokens[0].text in "([":
        return tuple(_python_value(part) for part in item.items())
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


@dataclass(frozen=True, slots=True)
class Custom(Kind):
    """A table that a function in `materializations/` fills by intervals.

    Args:
        materialization: The function's name.
        materialization_properties: The model's arguments for the function.
        entrypoint, code, outside: The function's place, source files and outside inputs, as in
            `PythonSource`; empty until files are read.
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
    by_intervals = True
    restates_whole = True
    properties = (
        Property("materialization", lambda value: value.text(), {"type": "string"}, required=True),
        Property(
            "materialization_properties",
            lambda value: tuple(sorted((key, _python_value(item)) for key, item in value.pairs())),
            {"type": "object"},
        ),
        Kind.LOOKBACK,
        Kind.BATCH_SIZE,
        *Kind.RESTATEMENT,
    )

    @property
    def files(self) -> tuple[str, ...]:
        read = (name.split(" ", 1) for name, _ in self.outside)
        return (*(path for path, _ in self.code), *(path for what, path in read if what == "file"))

    @property
    def settings(self) -> Mapping[str, Any]:
        """The arguments that the model passes to the function."""
        return dict(self.materialization_properties)
