"""From a model's own column names to the physical ones."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vde_dagster.base.names import quote, string_literal

__all__ = ["rename_columns", "string_literal"]

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|[A-Za-z_]\w*|.", re.DOTALL)


def rename_columns(expression: str, physical: Mapping[str, str]) -> str:
    """Replace column names in a short SQL expression such as `days(ts)` or `bucket(16, id)`.

    Functions, texts and the fields of a struct are left alone.

    Args:
        expression: The SQL.
        physical: Physical names by output column name in lower case.
    """
    tokens = _TOKEN.findall(expression)
    out: list[str] = []
    for position, token in enumerate(tokens):
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if name.lower() not in physical or not (token.startswith("`") or token[0].isidentifier()):
            out.append(token)
            continue
        before = "".join(tokens[:position]).rstrip()
        after = "".join(tokens[position + 1 :]).lstrip()
        if before.endswith(".") or (after.startswith("(") and not token.startswith("`")):
            out.append(token)
        else:
            out.append(quote(physical[name.lower()]))
    return "".join(out)
