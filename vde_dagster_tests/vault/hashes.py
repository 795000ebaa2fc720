"""What the vault's hashes are, said in Python alone; and the macros' SQL."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.sql.scanner import SourceText


def expanded(call: str, variables: Mapping[str, Any] | None = None) -> str:
    """Return what a call of a macro expands to."""
    scope = MacroScope({}, {}, settings=variables or {})
    return Expander(SourceText(Path("m.sql"), call), scope).expand().text


def text_of(value: Any) -> str | None:
    """Return the text of a value that is hashed."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, datetime):
        utc = value.astimezone(timezone.utc) if value.tzinfo else value
        return f"{utc.year:04}-{utc:%m-%d %H:%M:%S.%f}"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def key_text(values: Sequence[Any]) -> str | None:
    """Return the text of a key's columns; None where all are NULL."""
    if all(value is None for value in values):
        return None
    return "|".join("~N" if (text := text_of(v)) is None else _escaped(text) for v in values)


def attributes_text(row: Mapping[str, Any]) -> str:
    """Return the text of a row's attributes."""
    texts = {name: text_of(value) for name, value in sorted(row.items())}
    return "|".join(f"{name}={_escaped(text)}" for name, text in texts.items() if text is not None)


def hashed(text: str | None, algorithm: str = "md5") -> str | None:
    """Return the hash of a text."""
    return None if text is None else hashlib.new(algorithm, text.encode()).hexdigest()


def _escaped(text: str) -> str:
    return text.replace("~", "~0").replace("|", "~1")


def parts_in(text: str) -> list[str | None]:
    """Read back the texts of a key's columns."""
    return [
        None if part == "~N" else part.replace("~1", "|").replace("~0", "~")
        for part in text.split("|")
    ]
