"""Rules of plans in YAML files: CEL expressions (https://cel.dev), each with a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from vde_dagster.api.errors import SourceLocation, UsageError, placed
from vde_dagster.api.plans import Level, Objection, environment_name
from vde_dagster.api.sources import TooSlow, YamlDocument, load_yaml
from vde_dagster.api.values import how_to_install, listed

if TYPE_CHECKING:
    from celpy import Runner

    from vde_dagster.api.workspace import Workspace

_MOST_SECONDS = 10
"""Maximum seconds for evaluating one expression on one plan or model."""
_MOST_SIZE = 1_000_000
"""Maximum characters of a text, or items of a list, that `+` may create."""
_LONGEST_REASON = 300
OWNERS = "owners"
"""Placeholder in `approvers` for the owners of the affected models."""


class _RuleEntry(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    require: str
    message: str
    each: str | None = None
    level: Level = "refuse"
    approvers: list[str] = []
    environments: list[str] = []
    of: tuple[Literal["plan", "restatement", "run"], ...] = ("plan", "restatement")


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that a plan, or each selected model in the plan, must meet.

    Args:
        require: The condition, an expression over `plan`, `now` and, with `each`, `model`.
        each: An expression that selects models; None for a rule about the plan as a whole.
        approvers: Possible approvers, for level `ask`; the entry `owners` means the models' owners.
        environments: The environments where the rule applies; empty for all.
    """

    name: str
    require: Runner
    message: str
    each: Runner | None
    level: Level
    approvers: tuple[str, ...]
    environments: frozenset[str]
    kinds: frozenset[str]
    place: SourceLocation

    def objection(self, variables: Mapping[str, Any]) -> Objection | None:
        """Return an objection if the plan in the variables (see `make_variables`) breaks the rule.

        Raises:
            UsageError: An expression fails, or its value is not a truth value.
        """
        plan = variables["plan"]
        if plan["kind"] not in self.kinds:
            return None
        if self.environments and plan["environment"] not in self.environments:
            return None
        if self.each is None:
            if self._is_true(self.require, variables):
                return None
            return self._objection(self.message, [])
        against = []
        for model in plan["models"]:
            own = {**variables, "model": model}
            if self._is_true(self.each, own) and not self._is_true(self.require, own):
                against.append(model)
        if not against:
            return None
        shown = listed((model["name"] for model in against), 5)
        return self._objection(f"{self.message} ({shown})", against)

    def _objection(self, message: str, models: Sequence[Mapping[str, Any]]) -> Objection:
        # If a plan changes a model's owner, the previous owner approves it.
        found = (model["published_owner"] or model["owner"] for model in models)
        owners = [str(owner) for owner in found if owner]
        named = [[*owners] if name == OWNERS else [name] for name in self.approvers]
        approvers = tuple(dict.fromkeys(name for some in named for name in some))
        level = self.level
        if self.approvers and not approvers:
            # Owners are required but missing: then no other approval is enough.
            level, message = "refuse", f"{message}; no model has an owner who could approve it"
        names = tuple(str(model["name"]) for model in models)
        return Objection(self.name, message, level, approvers, names)

    def _is_true(self, expression: Runner, variables: Mapping[str, Any]) -> bool:
        from celpy import celtypes

        begin = monotonic()
        try:
            with TooSlow.after(_MOST_SECONDS):
                found = expression.evaluate(dict(variables))
        except (TooSlow, Exception) as error:
            # The library raises several classes, such as for `all(m)`. A lookup of an attribute
            # may swallow TooSlow and cause another error.
            said = str(error.args[0]) if error.args else "it has no value"
            if isinstance(error, TooSlow) or monotonic() - begin > _MOST_SECONDS:
                said = f"it takes more than {_MOST_SECONDS} s"
            raise self._evaluation_error(said, variables) from error
        if not isinstance(found, celtypes.BoolType | bool):
            raise self._evaluation_error(f"the value is not true or false: {found!s}", variables)
        return bool(found)

    def _evaluation_error(self, why: str, variables: Mapping[str, Any]) -> UsageError:
        of = f" for {variables['model']['name']}" if "model" in variables else ""
        # The library's messages may have all values of the plan.
        why = why.partition(" (in activation ")[0]
        why = why if len(why) <= _LONGEST_REASON else f"{why[: _LONGEST_REASON - 1]}…"
        return UsageError(
            f"{self.place}: the rule '{self.name}' cannot be evaluated{of}: {why}",
            hint="`vde help policies` lists fields of `plan` and `model`; "
            "has(model.x) returns whether a field exists",
        )


def make_variables(facts: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the variables of rules as CEL values: `plan` (see `plan_facts`) and `now` (UTC)."""
    from celpy import celtypes
    from celpy.adapter import json_to_cel

    return {"plan": json_to_cel(dict(facts)), "now": celtypes.TimestampType(now)}


def read_rules(workspace: Workspace, files: tuple[str, ...]) -> list[Rule]:
    """Read a project's files of rules.

    Raises:
        UsageError: A file is missing or outside of the project, or the extra is not installed.
        ProjectError: A file has a mistake.
    """
    found: list[Rule] = []
    for file in files:
        try:
            workspace.path(file)  # Checks that it is in the project.
            text = workspace.text(file)
        except OSError as error:
            raise UsageError(
                f"the rules of plans cannot be read: {file}: {error.strerror}",
                hint="create the file, or correct the setting `files` under [tool.vde.policies]",
            ) from error
        found += _parse_rules(load_yaml(Path(file), text), {rule.name for rule in found})
    return found


def _parse_rules(document: YamlDocument, names: set[str]) -> Iterator[Rule]:
    if document.value is not None and not isinstance(document.value, list):
        raise document.error((), "the rules must be a list", "write - name: owners")
    for number, entry in enumerate(document.value or []):
        at = (number,)
        one = document.read(at, entry, _RuleEntry, "a rule", "`vde help policies`")
        if one.name in names:
            raise document.error(at, f"the rule '{one.name}' occurs twice", "rename one")
        names.add(one.name)
        if one.approvers and one.level != "ask":
            message = f"the rule '{one.name}' has approvers, but its level is {one.level}"
            raise document.error((number, "approvers"), message, "write level: ask")
        if OWNERS in one.approvers and one.each is None:
            message = f"the rule '{one.name}' asks the owners of models, but selects no models"
            raise document.error(
                (number, "approvers"), message, "add `each`, an expression that selects models"
            )
        with placed(document.location((number, "environments"))):
            environments = frozenset(map(environment_name, one.environments))
        yield Rule(
            one.name,
            _compile_expression(document, number, "require", one.require),
            one.message.strip().rstrip("."),
            None if one.each is None else _compile_expression(document, number, "each", one.each),
            one.level,
            tuple(one.approvers),
            environments,
            frozenset(one.of),
            document.location(at),
        )


def _compile_expression(document: YamlDocument, number: int, field: str, text: str) -> Runner:
    try:
        from celpy import Environment
        from celpy.celparser import CELParseError
    except ImportError as error:
        raise UsageError(
            "rules over plans need a package that is not installed", hint=how_to_install("policies")
        ) from error
    environment = Environment()
    try:
        return environment.program(environment.compile(text), functions={"_+_": _add_within_limit})
    except CELParseError as error:
        problem = " ".join(str(error.args[0] if error.args else error).split())
        message = f"`{field}` is not a CEL expression: {problem}"
        raise document.error((number, field), message, "see `vde help policies`") from None


def _add_within_limit(left: Any, right: Any) -> Any:
    """Compute `left + right`, unless the text or list would be too long."""
    from celpy.evaluation import CELEvalError, base_functions

    size = sum(len(side) for side in (left, right) if isinstance(side, str | bytes | list))
    if size > _MOST_SIZE:
        return CELEvalError(f"a text or list has more than {_MOST_SIZE:,} parts")
    return base_functions["_+_"](left, right)
