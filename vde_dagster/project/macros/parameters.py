"""Parameters of Spark's own in a query (`${x}`, `:x`, `?`): nothing in a project sets them.

Spark would take `${x}` from its configuration, which no version of a model can see, and has no
value for the others; a plan must not find that out first when it is applied.
"""

from __future__ import annotations

import re

from vde_dagster.project.macros.time_variables import TIME_VARIABLES
from vde_dagster.sql.scanner import SourceText, scan

PARAMETER_HINT = "write @name, and define it under [tool.vde] variables in pyproject.toml"

_MAYBE = re.compile(r"\$\{|(?<!:):[A-Za-z_]|\?")


def find_parameter(source: SourceText, *, backslash: bool = True) -> tuple[int, str] | None:
    """Find a parameter outside strings, quoted identifiers and comments.

    Args:
        source: The text, without macros.
        backslash: As for `scan`.

    Returns:
        The offset of the first one and its text, or None. Time variables are none.
    """
    if _MAYBE.search(source.text) is None:
        return None
    tokens = [t for t in scan(source, backslash=backslash) if t.kind != "comment"]
    for index, token in enumerate(tokens):
        if token.kind != "punct":
            continue
        if token.text == "?":
            return token.start, "?"
        following = tokens[index + 1 : index + 4]
        if token.text == ":" and following and following[0].kind == "word":
            # With a value right before it, it is a path into that: `document:field`.
            before = tokens[index - 1] if index else None
            is_path = before is not None and before.end == token.start and _is_value(before.text)
            if following[0].start == token.end and not is_path:
                return token.start, f":{following[0].text}"
        if token.text == "$" and len(following) == 3 and following[0].text == "{":
            name = following[1].text
            if following[2].text == "}" and name.lower() not in TIME_VARIABLES:
                return token.start, f"${{{name}}}"
    return None


def _is_value(text: str) -> bool:
    return text[-1:].isalnum() or text[-1:] in "_`)]'\""
