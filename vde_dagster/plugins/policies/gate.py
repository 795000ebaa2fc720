"""The gate `policies`: every plan is held against the project's rules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.execution.plans.gates import Objection
from vde_dagster.plugins.policies.facts import facts_of
from vde_dagster.plugins.policies.rules import read_rules
from vde_dagster.plugins.policies.settings import PoliciesSettings

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan.plan import Plan


def policies_gate(workspace: Workspace, plan: Plan, now: datetime) -> Iterator[Objection]:
    """Yield what rules have against a plan; see `Gate`.

    Raises:
        UsageError: A rule cannot be asked, or there is no file of rules.
        ProjectError: The file has a mistake.
    """
    settings = PoliciesSettings(**workspace.settings.plugins["policies"])
    rules = read_rules(workspace.root, settings.files)
    facts = facts_of(workspace, plan) if rules else {}
    for rule in rules:
        found = rule.objection(facts, now)
        if found is not None:
            yield found
