"""Time variables in Jinja: known only when the query runs, so they can be printed and no more.

`'{{ start_ds }}'` is the variable `@start_ds`; `'day={{ start_ds }}'` puts it together with text.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from vde_dagster.project.jinja.pieces import edited
from vde_dagster.project.macros.expanded import Expanded
from vde_dagster.project.macros.time_variables import TIME_VARIABLES
from vde_dagster.sql.edits import Edit
from vde_dagster.sql.scanner import BACKSLASH_DIALECTS, SourceText, Token, scan
from vde_dagster.sql.trees import placeholder

THIS_MODEL = "this_model"
VALUES = TIME_VARIABLES | {THIS_MODEL}
_PRINTED = re.compile("\ue010(\\w+)\ue011")
_PLAIN = ("epoch", "millis", "hour", "model")
"""What a query may have without quotes around it: numbers, and a table's name."""
_AS_TEXT = {"date": "ds", "dt": "tstz", "dtntz": "ts"}
_TYPES = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "DATETIME": "TIMESTAMP"}


class UnknownUntilRun(Exception):
    """A template asks more of a time variable than to be printed."""


class TimeValue:
    """A time variable in a template.

    Args:
        name: The variable's name, such as `start_ds`.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __str__(self) -> str:
        return f"\ue010{self._name}\ue011"

    def _refuse(self, *_: Any) -> NoReturn:
        raise UnknownUntilRun(f"'{self._name}' is known only when the query runs")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __mod__ = _refuse
    __len__ = __iter__ = __getitem__ = __contains__ = __int__ = __float__ = _refuse


def is_time_value(value: object) -> bool:
    """Say whether a value is a time variable, or a text that has one in it."""
    return isinstance(value, TimeValue) or (
        isinstance(value, str) and _PRINTED.search(value) is not None
    )


def with_variables(text: Expanded, source: SourceText, dialect: str) -> Expanded:
    """Put placeholders of SQL where time variables were printed.

    Args:
        text: A rendered template.
        source: Says where its places are.
        dialect: SQLGlot dialect of the text.

    Raises:
        ProjectError: One stands where the query cannot have it.
    """
    if "\ue010" not in text.text:
        return text
    edits: list[Edit] = []
    before: Token | None = None
    done = 0
    for token in list(scan(source, backslash=dialect in BACKSLASH_DIALECTS)):
        if token.start < done:
            continue
        printed = _PRINTED.match(token.text) or _PRINTED.match(source.text, token.start)
        if token.kind == "comment":
            edits.append(Edit(token.start, token.end, _PRINTED.sub(r"\1", token.text)))
            continue
        if token.kind == "string" and "\ue010" in token.text and token.text[0] == "'":
            edits.append(_in_string(token, before))
        elif printed is not None and printed.start() == token.start and token.text[0] == "\ue010":
            _check_plain(source, printed)
            edits.append(Edit(token.start, printed.end(), placeholder(printed[1])))
            done = printed.end()
        elif "\ue010" in token.text:
            name = _PRINTED.search(token.text)
            raise source.error(
                f"'{name[1] if name else token.text}' cannot be a part of a name",
                token.start,
                "it is known only when the query runs",
            )
        before = token
    return edited(text, edits)


def _check_plain(source: SourceText, printed: re.Match[str]) -> None:
    name = printed[1]
    if name.rpartition("_")[2] not in _PLAIN:
        raise source.error(
            f"{{{{ {name} }}}} stands without quotes",
            printed.start(),
            f"write '{{{{ {name} }}}}', or @{name}",
        )


def _in_string(token: Token, before: Token | None) -> Edit:
    """Make a string with time variables an expression."""
    parts: list[str] = []
    position = 1
    for printed in _PRINTED.finditer(token.text):
        if printed.start() > position:
            parts.append(f"'{token.text[position : printed.start()]}'")
        parts.append(_text_of(printed[1]))
        position = printed.end()
    if position < len(token.text) - 1:
        parts.append(f"'{token.text[position:-1]}'")
    text = parts[0] if len(parts) == 1 else f"CONCAT({', '.join(parts)})"
    kind = None if before is None or before.kind != "word" else _TYPES.get(before.text.upper())
    if before is None or kind is None:
        return Edit(token.start, token.end, text)
    return Edit(before.start, token.end, f"CAST({text} AS {kind})")


def _text_of(name: str) -> str:
    prefix, _, suffix = name.rpartition("_")
    if suffix in ("epoch", "millis", "hour"):
        return f"CAST({placeholder(name)} AS VARCHAR(30))"
    return placeholder(f"{prefix}_{_AS_TEXT.get(suffix, suffix)}" if name != THIS_MODEL else name)
