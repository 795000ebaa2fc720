"""The gate `signatures`: a plan is applied only if enough trusted people signed it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.api.plans import Objection, Plan, PlanKind
from vde_dagster.api.values import count
from vde_dagster.plugins.signatures.ledger import load_signatures, read_settings
from vde_dagster.plugins.signatures.signing import invalid_signatures, valid_signers

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace


def signatures_gate(workspace: Workspace, plan: Plan, now: datetime) -> Iterator[Objection]:
    """Yield an objection if a plan lacks signatures that its environment requires; see `Gate`."""
    # A run of missing intervals needs no signatures, because its definitions were signed at their
    # publication. The kind `run` is derived from the plan's content, see `proven_plan`.
    settings = read_settings(workspace)
    needed = settings.required.get(plan.environment, 0)
    if plan.kind is PlanKind.RUN or not needed:
        return
    found = [
        one
        for one in load_signatures(workspace, plan.id)
        if settings.owner_name(one.key) is not None
    ]
    names: list[str] = []
    if found:
        # Signatures of the plan that is about to be applied, as it was written.
        document = workspace.plans.files.document(plan.as_written)
        names = valid_signers(settings, document, found)
        if bad := invalid_signatures(document, found):
            who = ", ".join(settings.owner_name(one.key) or "" for one in bad)
            yield Objection("signatures", f"{who} signed another plan", "refuse")
    if len(names) < needed:
        by_names = f" ({', '.join(names)})" if names else ""
        message = (
            f"{plan.environment} requires {count(needed, 'signature')}, but the plan has "
            f"{len(names)}{by_names}: vde plan sign {plan.id}"
        )
        yield Objection("signatures", message, "refuse", tuple(settings.trusted))
