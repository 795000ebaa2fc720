"""Models that an environment would no longer have, and how many of them look like a mistake."""

from __future__ import annotations

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.planning.plan import Plan
from vde_dagster.planning.warehouse_state import WarehouseState

_FEW = 2
"""So many models of several may always go: a share of a small project is a few of them."""


def require_meant(plan: Plan, state: WarehouseState, share: float) -> None:
    """Make sure that a plan does not empty an environment, as one of a wrong folder would.

    Args:
        plan: The plan.
        state: What exists; models that readers see count.
        share: The share of the environment's models that may go unasked, from 0 to 1.

    Raises:
        UsageError: All of them would go, or more than that; names them.
    """
    shown = _shown(state)
    gone = [name for name in shown if name not in plan.entries]
    every = len(gone) == len(shown)
    if not gone or (not every and (len(gone) <= _FEW or len(gone) <= share * len(shown))):
        return
    listed = "".join(f"\n  - {name}" for name in gone)
    many = f"all {len(shown)}" if len(shown) > 1 else "the only"
    said = many if every else f"{len(gone)} of the {len(shown)}"
    raise UsageError(
        f"the plan would remove {said} model{'s' if len(shown) > 1 else ''} of "
        f"'{plan.environment}', and nothing was changed:{listed}",
        hint="look whether this is the project's folder, with all of its models; if they are to "
        f"go: vde plan {plan.environment} --remove-models (in Dagster: remove_models: true)",
    )


def _shown(state: WarehouseState) -> list[ModelName]:
    """Name the models of the environment that readers see, or may."""
    if state.target is None:
        return []
    known = (
        name
        for name, entry in state.target.entries.items()
        if state.snapshots[entry.snapshot_id].model.kind.is_shown
    )
    return sorted({*known, *state.left_out})
