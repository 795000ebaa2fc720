"""The gate `policies`: evaluates the project's rules on every plan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vde_dagster.api.plans import Objection, Plan
from vde_dagster.plugins.policies.rules import make_variables, read_rules
from vde_dagster.plugins.policies.settings import PoliciesSettings

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace


_QUANTITIES = ("seconds", "task_seconds", "rows", "bytes", "bytes_read")


def policies_gate(workspace: Workspace, plan: Plan, now: datetime) -> Iterator[Objection]:
    """Yield an objection for each of the project's rules that a plan breaks; see `Gate`.

    Raises:
        UsageError: A rule cannot be evaluated, or a file of rules does not exist.
        ProjectError: The file has a mistake.
    """
    settings = PoliciesSettings(**workspace.settings.plugins["policies"])
    rules = read_rules(workspace, settings.files)
    if not rules:
        return
    known = make_variables(plan_facts(workspace, plan), now)
    for rule in rules:
        found = rule.objection(known)
        if found is not None:
            yield found


def plan_facts(workspace: Workspace, plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON, with further fields for the expressions of rules.

    Its models have, in addition to `vde plan --json`: `namespace`, `kind`, `owner`, `tags`,
    `published_owner` (empty without one), `computes` (whether something is computed), `breaks`
    (whether readers of published rows see other values or rows, or miss columns), and the expected
    `seconds`, `task_seconds`, `rows`, `bytes`, `bytes_read` and `money`, 0 if unknown.
    """
    estimate = workspace.plans.estimate(plan)
    changed = [m for m in plan.models if m.previous_snapshot_id not in (None, m.snapshot_id)]
    published = workspace.store.snapshots.load(
        (m.previous_snapshot_id for m in changed if m.previous_snapshot_id), unreadable=set()
    )
    found = workspace.plans.to_json(plan)
    for model, fields in zip(plan.models, found["models"], strict=True):
        snapshot = plan.snapshots.get(model.snapshot_id or model.previous_snapshot_id or "")
        definition = snapshot.model if snapshot is not None else None
        before = published.get(model.previous_snapshot_id or "") or snapshot
        before = before if model.previous_snapshot_id else None
        known = estimate.models.get(model.name)
        money = known.price(estimate.prices).expected if known else 0.0
        fields |= {
            "namespace": model.name.namespace,
            "kind": definition.kind.name if definition else "",
            "owner": (definition.owner if definition else None) or "",
            "published_owner": (before.model.owner if before else None) or "",
            "tags": list(definition.tags) if definition else [],
            "computes": model.builds,
            "breaks": model.is_breaking,
            **{name: _expected_value(name, getattr(known, name, None)) for name in _QUANTITIES},
            "money": money,
        }
    return found


def _expected_value(quantity: str, spread: Any) -> float:
    value = spread.expected if spread is not None else 0.0
    return value if "seconds" in quantity else round(value)
