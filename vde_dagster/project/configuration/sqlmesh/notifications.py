"""Conversion of SQLMesh's `notification_targets` (project and users) to `[tool.vde.notify]`.

Values from environment variables are replaced by `${NAME}`: settings are cached between loads and
must not contain secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

_EVENTS = {
    "apply_end": ("publication", "rollback"),
    "run_end": ("run",),
    "apply_failure": ("run_failed", "audit_blocked"),
    "run_failure": ("run_failed", "audit_blocked"),
    "audit_failure": ("audit_blocked",),
}
"""Events of `[tool.vde.notify]` for each event of SQLMesh.

SQLMesh's events for migrations, and for the start of an apply or run, have no counterpart.
"""
_SHORTEST = 3
"""Minimum length (characters) of a variable's value that is replaced in texts."""


def notify_table(
    targets: Any, users: Any, variables: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """Convert the notification targets of a project and its users to `[tool.vde.notify]`.

    Args:
        targets: The project's `notification_targets`, as JSON values.
        variables: Names of the environment variables that the configuration has read.

    Returns:
        The table, and the targets that have no effect.
    """
    hidden = _VariableNames(variables)
    unread: list[str] = []
    table: dict[str, Any] = {}
    for name, target in _convert_targets(targets, "", unread, hidden):
        table.setdefault("targets", {})[name] = target
    for given in users if isinstance(users, list) else ():
        if isinstance(given, Mapping) and given.get("username"):
            owner = str(given["username"])
            own = _convert_targets(
                given.get("notification_targets"), f"users.{owner}.", unread, hidden
            )
            found = [target for _, target in own]
            if found:
                events = sorted({event for one in found for event in one["events"]})
                addresses = [one["url"] for one in found]
                everywhere = {"url": addresses, "events": events, "environments": ["*"]}
                table.setdefault("owners", {})[owner] = everywhere
    return table, unread


def have_targets(users: Any) -> bool:
    """Return whether any user of a configuration has notification targets."""
    found = users if isinstance(users, list | tuple) else ()
    return any(
        one.get("notification_targets")
        if isinstance(one, Mapping)
        else getattr(one, "notification_targets", None)
        for one in found
    )


def _convert_targets(
    given: Any, above: str, unread: list[str], hidden: _VariableNames
) -> Iterator[tuple[str, dict[str, Any]]]:
    names: dict[str, int] = {}
    for place, target in enumerate(given if isinstance(given, list) else [given] if given else ()):
        target = target if isinstance(target, Mapping) else {}
        type_ = str(target.get("type") or target.get("type_") or "") if target else ""
        url = _apprise_url(type_, target) if type_ in _URLS else None
        given_events = target.get("notify_on") or () if target else ()
        events = [event for one in given_events for event in _EVENTS.get(str(one).lower(), ())]
        if url is None or not events:
            what = f" ({type_})" if type_ else ""
            unread.append(f"{above}notification_targets.{place}{what}")
            continue
        names[type_] = names.get(type_, 0) + 1
        name = type_ if names[type_] == 1 else f"{type_}_{names[type_]}"
        chosen = list(dict.fromkeys(events))
        yield name, {"url": hidden.replace(url), "events": chosen, "environments": ["*"]}


def _apprise_url(type_: str, target: Mapping[str, Any]) -> Any:
    needed = _URLS[type_]
    if not all(target.get(key) for key in needed):
        return None
    if type_ == "console":
        return "console://vde"
    if type_ == "slack_webhook":
        return str(target["url"])
    if type_ == "slack_api":
        return f"slack://{target['token']}/{target['channel']}"
    address = {
        "schema": "mailtos",
        "host": str(target["host"]),
        "port": target.get("port") or 465,
        "secure_mode": "ssl",
        "from_addr": str(target["sender"]),
        "targets": sorted(map(str, _as_list(target["recipients"]))),
    }
    own = {key: str(target[key]) for key in ("user", "password") if target.get(key)}
    return {**address, **own}


_URLS: Mapping[str, Sequence[str]] = {
    "console": (),
    "slack_api": ("token", "channel"),
    "slack_webhook": ("url",),
    "smtp": ("host", "sender", "recipients"),
}
"""Supported types of targets, each with its required keys."""


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


class _VariableNames:
    def __init__(self, variables: Collection[str]) -> None:
        names = sorted(os.environ) if "*" in variables else sorted(variables)
        known = {os.environ[name]: name for name in names if name in os.environ}
        self.known = {text: name for text, name in known.items() if len(text) >= _SHORTEST}
        texts = sorted(self.known, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, texts))) if texts else None

    def replace(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.replace(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.replace(one) for one in value]
        if isinstance(value, str) and self.pattern is not None:
            return self.pattern.sub(lambda found: f"${{{self.known[found[0]]}}}", value)
        return value
