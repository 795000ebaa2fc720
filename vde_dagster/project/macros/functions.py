"""Functions `x -> …` in macro calls, and the lists that they are applied to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vde_dagster.project.macros.scope import MacroContext, MacroFunction
from vde_dagster.project.macros.variables import bare
from vde_dagster.sql.edits import NOTHING, Edit, apply_edits
from vde_dagster.sql.expressions import add_brackets
from vde_dagster.sql.scanner import SourceText, Token, split_top_level

_OPENS = frozenset(
    {"", "(", "[", ",", "->", ":=", "=>", "SELECT", "WHERE", "WHEN", "THEN", "ELSE", "ON", "BY"}
    | {"HAVING", "DISTINCT", "FROM", "JOIN", "VALUES"}
)
_CLOSES = frozenset(
    {"", ")", "]", ",", "AS", "THEN", "ELSE", "END", "WHEN", "ASC", "DESC", "FROM", ";"}
)
"""A parameter's value needs no brackets between a token of `_OPENS` and one of `_CLOSES`."""


def call_function(function: MacroFunction, expander: MacroContext, arguments: list[str]) -> str:
    """Apply `(x, y) -> body` to one SQL text per parameter."""
    values = dict(zip((name.lower() for name in function.names), arguments, strict=True))
    with expander.bound(values):
        return expander.expand_text(_insert_arguments(expander, function.body, values))


def _call_with_item(function: MacroFunction, expander: MacroContext, item: str) -> str:
    if len(function.names) == 1:
        return call_function(function, expander, [item])
    parts = list_items(expander, item) if item.lstrip().startswith("(") else [item]
    if len(parts) != len(function.names):
        raise expander.error(
            f"the function takes {len(function.names)} arguments, and '{item}' has {len(parts)}",
            "write a tuple per item: [(a, 1), (b, 2)]",
        )
    return call_function(function, expander, parts)


def read_function(expander: MacroContext, text: str) -> MacroFunction | None:
    """Parse `x -> body` or `(x, y) -> body`, or return None if the text is not a function."""
    sides = split_top_level(expander.tokens(text), "->")
    if len(sides) < 2 or not sides[0]:
        return None
    names = tuple(token.text for token in sides[0] if token.kind == "word")
    return MacroFunction(names, text[sides[1][0].start : sides[-1][-1].end])


def _last_function(expander: MacroContext, macro: str, arguments: list[str]) -> MacroFunction:
    function = read_function(expander, arguments[-1]) if len(arguments) > 1 else None
    if function is None:
        raise expander.error(
            f"@{macro} takes a list and a function", f"write @{macro}([a, b], x -> …)"
        )
    return function


def argument_items(expander: MacroContext, arguments: list[str]) -> list[str]:
    """Return a macro call's items: `a` and `b` for the arguments `[a, b]` and for `a, b`."""
    if len(arguments) != 1:
        return [expander.expand_text(argument) for argument in arguments]
    text = arguments[0].strip()
    made = _call_items(expander, text)
    return made if made is not None else list_items(expander, expander.expand_text(text))


def list_items(expander: MacroContext, text: str) -> list[str]:
    """Split `[a, b]`, `(a, b)` or `ARRAY(a, b)` into items; any other text is one item."""
    tokens = expander.tokens(text)
    if not tokens:
        return []
    if tokens[0].is_word("ARRAY") and len(tokens) > 1:
        tokens = tokens[1:]
    if tokens[0].text in "([" and _closes_last(expander, text, tokens, 0):
        tokens = tokens[1:-1]
    return [text[part[0].start : part[-1].end] for part in split_top_level(tokens) if part]


def _closes_last(expander: MacroContext, text: str, tokens: list[Token], opening: int) -> bool:
    source = SourceText(expander.source.path, text)
    return source.closing(tokens, opening) == len(tokens) - 1


def _map_items(expander: MacroContext, arguments: list[str]) -> list[str]:
    """`@EACH(items, x -> expression)`: one expression per item."""
    function = _last_function(expander, "EACH", arguments)
    made = [
        _call_with_item(function, expander, one) for one in argument_items(expander, arguments[:-1])
    ]
    return [text for text in made if not is_nothing(text)]


def _filter(expander: MacroContext, arguments: list[str]) -> list[str]:
    """`@FILTER(items, x -> condition)`: the items that meet a condition."""
    function = _last_function(expander, "FILTER", arguments)
    return [
        item
        for item in argument_items(expander, arguments[:-1])
        if expander.is_constant_true(_call_with_item(function, expander, item))
    ]


def reduced(expander: MacroContext, arguments: list[str]) -> str:
    """`@REDUCE(items, (x, y) -> expression)`: one expression, combined from left to right."""
    function = _last_function(expander, "REDUCE", arguments)
    if len(function.names) != 2:
        raise expander.error("@REDUCE's function must have two parameters", "write (x, y) -> x + y")
    items = argument_items(expander, arguments[:-1])
    if not items:
        raise expander.error("@REDUCE has no items", "pass a list with at least one item")
    made = items[0]
    for item in items[1:]:
        made = call_function(function, expander, [made, item])
    return made


LISTS: Mapping[str, Callable[[MacroContext, list[str]], list[str]]] = {
    "each": _map_items,
    "filter": _filter,
}
"""Macros that return a list."""


def is_nothing(text: str) -> bool:
    """Return whether a macro's result is empty."""
    return text.strip() in ("", NOTHING)


def _call_items(expander: MacroContext, text: str) -> list[str] | None:
    from vde_dagster.project.macros.calls import user_macro_items

    if not text.startswith("@"):
        return None
    tokens = expander.tokens(text)
    called = len(tokens) > 3 and tokens[2].text == "(" and tokens[1].kind == "word"
    if not called or not _closes_last(expander, text, tokens, 2):
        return None
    name, arguments = tokens[1].text.lower(), text[tokens[2].end : tokens[-1].start]
    if expander.macro(name) is not None:
        made = user_macro_items(expander, name, arguments)
        return None if made is None else [expander.expand_text(one) for one in made]
    if name in LISTS:
        return LISTS[name](expander, expander.split_arguments(arguments))
    return None


def _insert_arguments(expander: MacroContext, body: str, values: Mapping[str, str]) -> str:
    """Replace a function's parameters in its body; names with `@` are variables and stay."""
    tokens = expander.tokens(body)
    hidden = _shadowed_words(tokens, values)
    edits: list[Edit] = []
    for index, token in enumerate(tokens):
        value = values.get(token.text.lower()) if token.kind == "word" else None
        if value is None or index in hidden:
            continue
        before = tokens[index - 1].text if index else ""
        after = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if before in ("@", "{") or after in ("(", ":=", "->"):
            continue
        if before.upper() == "AS" or "." in (before, after):
            value = bare(value)
        elif before.upper() not in _OPENS or after.upper() not in _CLOSES:
            value = add_brackets(value, expander.scope.dialect)
        edits.append(Edit(token.start, token.end, value))
    return apply_edits(body, edits)


def _shadowed_words(tokens: list[Token], values: Mapping[str, str]) -> set[int]:
    hidden: set[int] = set()
    covered: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if token.text != "->":
            continue
        first = index - 1
        if tokens[first].text == ")":
            while first > 0 and tokens[first].text != "(":
                first -= 1
        names = {t.text.lower() for t in tokens[first:index] if t.kind == "word"} & values.keys()
        # A nested function with the same parameter ends no later than the outer one.
        names = {name for name in names if covered.get(name, -1) < index}
        if not names:
            continue
        depth, last = 0, index
        while last + 1 < len(tokens):
            text = tokens[last + 1].text
            depth += (text in "([{") - (text in ")]}")
            if depth < 0 or (depth == 0 and text == ","):
                break
            last += 1
        hidden |= {at for at in range(first, last + 1) if tokens[at].text.lower() in names}
        covered |= dict.fromkeys(names, last)
    return hidden
