"""The signals that a model names, as calls of the project's Python functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import ProjectError, Unknown
from vde_dagster.project.model import PythonSource, Signal
from vde_dagster.project.reading.audits import AuditCall

GIVEN = ("batch", "execution_time", "environment", "model", "context")
"""Parameters of signals that nobody writes in a call."""


@dataclass(frozen=True, slots=True)
class SignalDefinition:
    """A function of the project under `@signal()`.

    Args:
        function: The function.
        python: Its code.
    """

    function: Callable[..., Any]
    python: PythonSource


def read_signals(
    calls: Sequence[AuditCall], known: Mapping[str, SignalDefinition]
) -> tuple[Signal, ...]:
    """Turn calls into signals.

    Raises:
        ProjectError: A signal or an argument is unknown, or a value is not a plain one.
    """
    return tuple(_read(call, known) for call in calls)


def _read(call: AuditCall, known: Mapping[str, SignalDefinition]) -> Signal:
    name = call.name.lower()
    definition = known.get(name)
    if definition is None:
        raise ProjectError(
            f"unknown signal '{call.name}'",
            hint=suggest(call.name, known, "signals")
            if known
            else "write it in signals/, a Python function under @signal()",
            location=call.location,
            unknown=Unknown("signal", name),
        )
    arguments = tuple(
        (key, _value(text, key, call)) for key, text in sorted(call.arguments.items())
    )
    parameters = list(inspect.signature(definition.function).parameters.values())[1:]
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    names = [one.name for one in parameters if one.name not in GIVEN]
    for key, _ in arguments:
        if key not in names and not open_ended:
            raise ProjectError(
                f"signal '{call.name}' has no argument '{key}'",
                hint=suggest(key, names, "arguments") if names else "it takes none",
                location=call.location,
            )
    for one in parameters:
        needed = one.default is inspect.Parameter.empty and one.kind in (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        )
        if needed and one.name in names and one.name not in dict(arguments):
            raise ProjectError(
                f"signal '{call.name}' needs the argument '{one.name}'",
                hint=f"write {call.name}({one.name} := …)",
                location=call.location,
            )
    return Signal(name, arguments, definition.python)


def _value(text: str, key: str, call: AuditCall) -> object:
    """Read a plain value of SQL: a text, a number, true, false or null."""
    words = text.strip()
    plain: dict[str, object] = {"true": True, "false": False, "null": None}
    if words.lower() in plain:
        return plain[words.lower()]
    if len(words) > 1 and words[0] == words[-1] and words[0] in "'\"":
        return words[1:-1].replace(words[0] * 2, words[0])
    for kind in (int, float):
        try:
            return kind(words)
        except ValueError:
            continue
    raise ProjectError(
        f"argument '{key}' of signal '{call.name}' is not a plain value: {words}",
        hint="write a text in quotes, a number, true, false or null",
        location=call.location,
    )
