"""Names that Dagster shows and that several modules share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import dagster as dg

from vde_dagster.base.hashing import digest
from vde_dagster.orchestration.instance import URL_VARIABLE
from vde_dagster.project.settings import Settings

SNAPSHOT = "snapshot"
"""Dimension of versions; its name sorts before `time`, so it is the page's first column."""
TIME = "time"

POOL = "vde_spark"
"""Pool shared by all projects, because a machine has room for one Spark session."""
BREAKING_CHECK = "no_breaking_changes"
QUERIES_CHECK = "queries_analyse"
TESTS_CHECK = "unit_tests_pass"

PUBLISHED = "published"
"""Metadata label on a published plan's page, with its publisher and time."""
EVALUATION = "vde/evaluation"
"""Metadata key with the id of the audits, unit test or failed apply that an event records."""
PLAN_TAG = "vde/plan"
ENVIRONMENT_TAG = "vde/environment"
PROJECT_TAG = "vde/project"


CONTROL_ASSETS = ("plan", "apply", "reject", "environment", "janitor", "cost")
"""Assets under the first key part `vde`."""
_INVALID = re.compile(r"[^A-Za-z0-9_]")
_INVALID_TAG = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_TAG = 63
_HASHED = re.compile(r"_x[0-9a-f]{10}")
_HASH_LENGTH = 12
_ADDRESS = re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")
"""Addresses that `dagster._core.utils.is_valid_email` accepts."""
_MAILBOX = re.compile(r'(?:"[^"]*"|[^,;<>"])*<([^<>]*)>')
"""Display name followed by an address in angle brackets."""


def safe_name(text: str) -> str:
    """Replace each character that Dagster does not allow with `_`."""
    return _INVALID.sub("_", text)


def dagster_name(*parts: str) -> str:
    """Return a name that Dagster accepts. Two different paths never share a name.

    The parts are joined by `__`, and followed by a short hash of them if a character was replaced,
    if another path would give the same name (`a__b.c` and `a.b__c`), or if the name already ends
    like such a hash.
    """
    name = "__".join(map(safe_name, parts))
    is_ambiguous = len(parts) > 1 and any("__" in f"_{part}_" for part in parts)
    if is_ambiguous or not name or name != "__".join(parts) or _is_hashed(name):
        return name + _short_hash(*parts)
    return name


def dagster_tag(tag: str) -> str:
    """Return a tag key that Dagster accepts; two different tags never share a key."""
    key = _INVALID_TAG.sub("_", tag)
    if key == tag and 0 < len(tag) <= _LONGEST_TAG and not _is_hashed(tag):
        return tag
    return key[: _LONGEST_TAG - _HASH_LENGTH] + _short_hash(tag)


def _is_hashed(name: str) -> bool:
    return _HASHED.fullmatch(name[-_HASH_LENGTH:]) is not None


def _short_hash(*parts: str) -> str:
    return f"_x{digest(*parts)[:10]}"


def dagster_owners(owners: Iterable[str | None]) -> list[str]:
    """Return owners in the form that Dagster accepts: addresses, and teams for all other texts.

    `Data <data@example.com>` yields its address. A list separated by commas, semicolons or blanks
    yields each address. Dagster accepts ASCII addresses that begin with a letter, a digit or `_`,
    under a top-level domain of two to seven letters.
    """
    found: dict[str, None] = {}
    for owner in owners:
        text = (owner or "").strip()
        team = text.removeprefix("team:").strip()
        addresses = re.split(r"[,;\s]+", _MAILBOX.sub(r" \1 ", text).strip(" ,;"))
        if all(map(_ADDRESS.fullmatch, addresses)):
            found |= dict.fromkeys(addresses)
        elif team:
            found[f"team:{team}"] = None
    return list(found)


def without_nones(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one project's assets, partitions, jobs, sensors and resources in Dagster."""

    # Asset keys, ops and resources are unique in a code location, partitions and run tags in a
    # whole Dagster instance. The prefix distinguishes projects that share an instance.
    prefix: str = ""

    @classmethod
    def from_settings(cls, settings: Settings) -> Names:
        return cls(settings.dagster.prefix)

    def asset_key(self, *path: str) -> dg.AssetKey:
        """Return an asset key of the project, such as `schema / model`."""
        return dg.AssetKey([self.prefix, *path] if self.prefix else [*path])

    def named(self, name: str) -> str:
        """Add the project's prefix to the name of a job, op, sensor, group or resource."""
        return f"{self.prefix}_{name}" if self.prefix else name

    @staticmethod
    def link(key: dg.AssetKey, partition: str, text: str) -> str:
        """Return a Markdown link to a partition of an asset, relative to Dagster's address."""
        prefix = urlsplit(os.environ.get(URL_VARIABLE, "")).path.rstrip("/")
        path = "/".join(quote(part, safe="") for part in key.path)
        return f"[{text}]({prefix}/assets/{path}?view=partitions&partition={quote(partition)})"

    @property
    def plan_key(self) -> dg.AssetKey:
        return self.asset_key("vde", "plan")

    @property
    def apply_key(self) -> dg.AssetKey:
        return self.asset_key("vde", "apply")

    @property
    def reject_key(self) -> dg.AssetKey:
        return self.asset_key("vde", "reject")

    @property
    def environment_key(self) -> dg.AssetKey:
        return self.asset_key("vde", "environment")

    @property
    def janitor_key(self) -> dg.AssetKey:
        return self.asset_key("vde", "janitor")

    @property
    def plans(self) -> dg.DynamicPartitionsDefinition:
        return dg.DynamicPartitionsDefinition(name=self.named("vde_plans"))

    @property
    def rejections(self) -> dg.DynamicPartitionsDefinition:
        """Partitions of plans that can be rejected or were rejected, by plan id."""
        return dg.DynamicPartitionsDefinition(name=self.named("vde_rejections"))

    @property
    def environments(self) -> dg.DynamicPartitionsDefinition:
        return dg.DynamicPartitionsDefinition(name=self.named("vde_environments"))

    @property
    def group(self) -> str:
        """Name of the asset group for plans, approvals and environments."""
        return self.named("vde")

    @property
    def resource(self) -> str:
        """The name of the resource that gives steps the project's workspace."""
        return self.named("vde")

    @property
    def tags(self) -> dict[str, str]:
        """The tags of every run of the project's jobs."""
        return {PROJECT_TAG: self.prefix} if self.prefix else {}


SHORT = Names()
"""Names without a prefix, for a project with its own Dagster instance."""
