"""The gate `signatures`: a plan is applied where as many have signed it as the project asks for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.base.texts import count
from vde_dagster.execution.plans.plan_file import plan_document, project_of
from vde_dagster.execution.plans.proven_plan import ProvenPlan
from vde_dagster.planning.plan.plan import Objection, PlanKind
from vde_dagster.plugins.signatures.ledger import kept, settings_of
from vde_dagster.plugins.signatures.signing import signers, wrong

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan.plan import Plan


def signatures_gate(workspace: Workspace, plan: Plan, now: datetime) -> Iterator[Objection]:
    """Yield what a plan lacks of signatures; see `Gate`.

    A run of what is due needs none: it computes what was signed when it was published. Its kind is
    derived from its content, see `proven_plan`.
    """
    settings = settings_of(workspace)
    needed = settings.required.get(plan.environment, 0)
    if plan.kind is PlanKind.RUN or not needed:
        return
    found = [one for one in kept(workspace, plan.id) if settings.who(one.key) is not None]
    names: list[str] = []
    if found:
        # Of the plan that is about to be applied, as it was written.
        written = plan.written if isinstance(plan, ProvenPlan) else None
        document = plan_document(written or plan, project_of(workspace))
        names = signers(settings, document, found)
        if bad := wrong(document, found):
            who = ", ".join(settings.who(one.key) or "" for one in bad)
            yield Objection("signatures", f"it is not the plan that {who} signed", "refuse")
    if len(names) < needed:
        of = f" ({', '.join(names)})" if names else ""
        told = (
            f"{plan.environment} asks for {count(needed, 'signature')}, and the plan has "
            f"{len(names)}{of}: vde plan sign"
        )
        yield Objection("signatures", told, "refuse", tuple(settings.trusted))
