from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from vde_dagster.api.plans import PRODUCTION
from vde_dagster.api.values import PluginSettings, Settings, suggest

EVENTS = {
    "approval": "a plan waits for an approval",
    "audit_blocked": "blocking audits found rows",
    "contract": "published models or columns are removed, or columns change their type",
    "late": "tables are older than their models promise",
    "publication": "a plan was published",
    "refused": "rules or budgets refuse an apply or a run",
    "rollback": "an environment was rolled back",
    "run": "due intervals were computed and published",
    "run_failed": "an apply or a run failed",
}
"""Events for receivers."""
_DEFAULT_EVENTS = tuple(name for name in EVENTS if name != "run")
"""Events that a target without `events` receives."""
_OWNER_EVENTS = ("approval", "audit_blocked", "contract", "late", "refused", "run_failed")
_KEYS = ("url", "events", "environments")


@dataclass(frozen=True, slots=True)
class NotifySettings(PluginSettings):
    """The table `[tool.vde.notify]`: receivers of notifications.

    Args:
        targets: Tables by name, with `url` (an Apprise URL or its parts, or several URLs), `events`
            and `environments` (patterns). `${NAME}` in a URL is read from the environment when
            used.
        owners: A URL, or a table as in `targets`, by a model's owner.
        owner_events: Events for owners, who get only events of their own models.
        environments: Environments or patterns; by default production and the environments in
            `protected`.
        per_hour: Maximum number of messages per hour to one receiver; further messages wait, and
            are combined.
        dagster_url: The URL of Dagster, for links.
        sensor: Whether Dagster's sensor that sends messages is enabled from the start.
    """

    targets: dict[str, Any] = field(default_factory=dict, repr=False)
    owners: dict[str, Any] = field(default_factory=dict, repr=False)
    owner_events: tuple[str, ...] = _OWNER_EVENTS
    environments: tuple[str, ...] = ()
    per_hour: int = 20
    dagster_url: str = ""
    sensor: bool = False

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        for name, target in self.targets.items():
            if isinstance(target, Mapping):
                yield from _check_target(f"targets.{name}", target)
            else:
                hint = "write { url = '…', events = ['run_failed'] }"
                yield f"targets.{name}", "is not a table", hint
        for owner, given in self.owners.items():
            if _is_table(given):
                yield from _check_target(f"owners.{owner}", given)
            else:
                yield from _check_urls(f"owners.{owner}", given)
        yield from self._check_names()
        yield from _check_events("owner_events", self.owner_events)
        yield from _check_environments("environments", self.environments)
        if self.per_hour < 1:
            yield "per_hour", "must be 1 or more", "raise it"
        if self.dagster_url and not self.dagster_url.startswith(("http://", "https://")):
            yield "dagster_url", "is not a URL", "write https://dagster.example.org"

    def _check_names(self) -> Iterator[tuple[str, str, str]]:
        # Each address has its position in the outbox by its name.
        named = [(f"targets.{name}", name, given) for name, given in self.targets.items()]
        named += [(f"owners.{name}", f"owner:{name}", given) for name, given in self.owners.items()]
        taken: dict[str, str] = {}
        for key, name, given in named:
            names = _receiver_names(name, given.get("url") if _is_table(given) else given)
            for one in [one for one in names if one in taken][:1]:
                message = f"has an address with the name '{one}', which notify.{taken[one]} has too"
                yield key, message, "rename one of them: each address needs a name of its own"
            taken |= dict.fromkeys(names, key)


def _is_table(given: Any) -> bool:
    # A mapping with `schema` is an address by its parts.
    return isinstance(given, Mapping) and "schema" not in given


def _receiver_names(name: str, urls: Any) -> list[str]:
    more = range(2, len(urls) + 1) if isinstance(urls, list) else ()
    return [name, *(f"{name}/{place}" for place in more)]


def _check_target(key: str, target: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for one in target:
        if one not in _KEYS:
            yield f"{key}.{one}", "is not known", suggest(one, _KEYS, "keys")
    yield from _check_urls(f"{key}.url", target.get("url"))
    for part in ("events", "environments"):
        if not _is_texts(target.get(part, [])):
            yield f"{key}.{part}", "is not a list of texts", "write ['…', '…']"
        elif part in target and not target[part]:
            yield f"{key}.{part}", "is an empty list", "remove it for the default, or add an entry"
        else:
            check = _check_events if part == "events" else _check_environments
            yield from check(f"{key}.{part}", target.get(part, []))


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _check_urls(key: str, value: Any) -> Iterator[tuple[str, str, str]]:
    urls = value if isinstance(value, list) else [value]
    if not urls or not all(urls):
        yield key, "has no address", "write 'slack://…', 'mailto://…' or a list of such URLs"
    elif not all(map(_is_address, urls)):
        yield key, "is not a URL", "write it with its service: 'slack://…', 'mailto://…'"


def _is_address(value: Any) -> bool:
    if isinstance(value, Mapping):
        return isinstance(value.get("schema"), str)
    return isinstance(value, str) and ("://" in value or value.startswith("${"))


def _check_events(key: str, names: Any) -> Iterator[tuple[str, str, str]]:
    for name in names:
        if name not in EVENTS:
            yield key, f"names an unknown event: '{name}'", suggest(name, EVENTS, "events")


def _check_environments(key: str, patterns: Any) -> Iterator[tuple[str, str, str]]:
    for pattern in patterns:
        if hint := Settings.environment_hint(pattern, wildcards=True):
            yield key, f"matches no environment's name: '{pattern}'", hint


Address = str | Mapping[str, Any]
"""A URL for Apprise, or its parts: `schema`, `host`, `password`, …"""


@dataclass(frozen=True, slots=True)
class Receiver:
    """An address that gets notifications, with its own position in the outbox.

    Args:
        name: The target's name, or `owner:NAME`. The second address of the target `team` has the
            name `team/2`.
        url: A URL for Apprise, or its parts, with `${NAME}` in place of secrets.
        environments: Patterns; empty for production and protected environments.
        owner: The owner of the models to report; None for all.
    """

    name: str
    url: Address = field(repr=False)
    events: frozenset[str]
    environments: tuple[str, ...]
    owner: str | None = None

    def wants_environment(self, environment: str, settings: Settings) -> bool:
        if self.environments:
            return any(fnmatchcase(environment, pattern) for pattern in self.environments)
        return environment == PRODUCTION or settings.is_protected(environment)


def read_receivers(settings: Settings) -> list[Receiver]:
    own = NotifySettings(**settings.plugins.get("notify", {}))
    found: list[Receiver] = []
    for name, target in own.targets.items():
        found += _expand_target(name, target, _DEFAULT_EVENTS, own.environments)
    for owner, given in own.owners.items():
        target = given if _is_table(given) else {"url": given}
        found += _expand_target(f"owner:{owner}", target, own.owner_events, own.environments, owner)
    return found


def _expand_target(
    name: str,
    target: Mapping[str, Any],
    events: Sequence[str],
    environments: Sequence[str],
    owner: str | None = None,
) -> Iterator[Receiver]:
    subscribed = frozenset(target.get("events") or events)
    where = tuple(target.get("environments") or environments)
    urls = target["url"] if isinstance(target["url"], list) else [target["url"]]
    for receiver, url in zip(_receiver_names(name, urls), urls, strict=True):
        yield Receiver(receiver, url, subscribed, where, owner)
