"""What rules see of a plan: its JSON, with what models and earlier fills say beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.execution.apply.batches import expected_work
from vde_dagster.reports.plan import breaking

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan.plan import Plan


def facts_of(workspace: Workspace, plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON.

    Its models have, beside what `vde plan --json` says of them: `namespace`, `kind`, `owner`,
    `tags`, `computes` (whether something is computed), `breaks` (whether what production
    shows of it changes for readers), and `seconds`, `rows` and `bytes` of that work by the last
    fill, 0 where there was none.
    """
    work, broken = expected_work(workspace, plan), {model.name for model in breaking(plan)}
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
            "seconds": (known.seconds if known else None) or 0.0,
            "rows": round((known.rows if known else None) or 0),
            "bytes": round((known.bytes if known else None) or 0),
        }
    return found
