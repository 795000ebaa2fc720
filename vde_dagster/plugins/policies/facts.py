"""What rules see of a plan: its JSON, with what models and earlier fills say beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.execution.plans.estimate import estimate_plan
from vde_dagster.reports.plan import breaking

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan.plan import Plan


def facts_of(workspace: Workspace, plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON.

    Its models have, beside what `vde plan --json` says of them: `namespace`, `kind`, `owner`,
    `tags`, `computes` (whether something is computed), `breaks` (whether what production
    shows of it changes for readers), and `seconds`, `rows` and `bytes` that this is
    expected to take, 0 where nothing was computed before.
    """
    work, broken = estimate_plan(workspace, plan).models, {model.name for model in breaking(plan)}
    found = plan.to_json()
    for model, said in zip(plan.models, found["models"], strict=True):
        snapshot = plan.snapshots.get(model.snapshot_id or model.previous_snapshot_id or "")
        of = snapshot.model if snapshot is not None else None
        known = work.get(model.name)
        said |= {
            "namespace": model.name.namespace,
            "kind": of.kind.name if of else "",
            "owner": (of.owner if of else None) or "",
            "tags": list(of.tags) if of else [],
            "computes": model.builds,
            "breaks": model.name in broken,
            "seconds": known.seconds.expected if known and known.seconds else 0.0,
            "rows": round(known.rows.expected) if known and known.rows else 0,
            "bytes": round(known.bytes.expected) if known and known.bytes else 0,
        }
    return found
