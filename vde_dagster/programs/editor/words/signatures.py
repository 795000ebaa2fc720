"""Signatures of unfinished calls: the parameters of the function or macro."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from vde_dagster.programs.editor.reading import Reading
from vde_dagster.programs.editor.words.completion import read_tokens
from vde_dagster.project.files import find_files
from vde_dagster.project.macros.builtins import BUILTINS
from vde_dagster.semantics import spark_functions

_WRITTEN = re.compile(r"`@\w+\((?P<taken>.*)\)`: (?P<told>.*)", re.DOTALL)
_NO_CALLS = frozenset({"AS", "IN", "AND", "OR", "ON", "BY", "FROM", "VALUES", "OVER", "USING"})


class Signature(NamedTuple):
    """A function or macro with its parameters, for the call at the cursor.

    Args:
        parameters: The texts of the parameters.
        active: Index of the parameter at the cursor.
        told: Description of the function or macro.
    """

    name: str
    parameters: tuple[str, ...]
    active: int
    told: str = ""

    @property
    def label(self) -> str:
        """The call as text: `date_add(argument 1, argument 2)`."""
        return f"{self.name}({', '.join(self.parameters)})"


def signature(reading: Reading, path: str, offset: int) -> Signature | None:
    """Return the signature of the call around the cursor in a SQL file, or None without a call."""
    if not path.endswith(".sql"):
        return None
    tokens = read_tokens(reading.text(path)[:offset])
    depth, commas = 0, 0
    for at in range(len(tokens) - 1, 0, -1):
        text = tokens[at].text
        if text in ")]}":
            depth += 1
        elif text in "([{" and depth:
            depth -= 1
        elif text == "(":
            name = tokens[at - 1]
            macro = at > 1 and tokens[at - 2].text == "@"
            if name.kind == "word" and (macro or name.text.upper() not in _NO_CALLS):
                found = (
                    _macro_signature(reading, name.text)
                    if macro
                    else _function_signature(name.text.lower())
                )
                # The last parameter may be repeated.
                return found and found._replace(
                    active=min(commas, max(len(found.parameters) - 1, 0))
                )
            return None
        elif text in "[{":
            commas = 0  # The commas so far belong to the list.
        elif text == "," and not depth:
            commas += 1
        elif text == ";":
            return None
    return None


def _function_signature(name: str) -> Signature | None:
    kind = spark_functions.function_kind(name)
    if kind is None:
        return None
    least, most = spark_functions.argument_counts(name)
    units = spark_functions.UNITS.get(name, {})
    parameters = []
    for number in range(least if most is None else most):
        words = f"argument {number + 1}"
        if number in units:
            words = "|".join(sorted(set(units[number].values())))
        parameters.append(words if number < least else f"[{words}]")
    if most is None:
        parameters.append("…")
    told = f"{kind}, arguments: {spark_functions.arguments_text(name)}"
    return Signature(name, tuple(parameters), 0, told)


def _macro_signature(reading: Reading, name: str) -> Signature | None:
    for found in _project_macros(reading, name):
        return found
    builtin = BUILTINS.get(name.lower())
    written = _WRITTEN.match(" ".join((builtin.__doc__ or "").split())) if builtin else None
    if written is None:
        return None
    taken = re.findall(r"(?:\[[^\]]*\]|\([^)]*\)|'[^']*'|[^,\[('])+", written["taken"])
    return Signature(f"@{name}", tuple(map(str.strip, taken)), 0, written["told"])


def _project_macros(reading: Reading, name: str) -> Iterator[Signature]:
    for path in find_files(reading.project.settings).macros:
        text = reading.text(path) if path.endswith(".py") else ""
        if not re.search(rf"def\s+{re.escape(name)}\b", text, re.IGNORECASE):
            continue
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.lower() == name.lower():
                taken = tuple(_parameter_texts(node.args)[1:])
                yield Signature(f"@{node.name}", taken, 0, ast.get_docstring(node) or "")


def _parameter_texts(arguments: ast.arguments) -> list[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    without = len(positional) - len(arguments.defaults)
    shown = []
    for number, one in enumerate(positional):
        type_ = f": {ast.unparse(one.annotation)}" if one.annotation is not None else ""
        default = arguments.defaults[number - without] if number >= without else None
        given = f" := {ast.unparse(default)}" if default is not None else ""
        shown.append(f"{one.arg}{type_}{given}")
    if arguments.vararg is not None:
        shown.append(f"*{arguments.vararg.arg}")
    for one, own in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        shown.append(f"{one.arg} := {ast.unparse(own)}" if own is not None else one.arg)
    return shown
