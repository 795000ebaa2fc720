"""Who may approve and reject: a run that is about one plan, never one of many things at once."""

from __future__ import annotations

import dagster as dg

_BACKFILL_TAG = "dagster/backfill"


def decides(context: dg.AssetExecutionContext, plan_id: str | None) -> bool:
    """Say whether a step's run is a decision about the plan of its partition.

    It is when the plan's id stands in its config, or when the plan was chosen by itself: this
    asset, one partition, nothing else. What a bulk materialisation brings along is left alone.

    Args:
        context: The step.
        plan_id: The plan's id in the step's config, if it is there.

    Raises:
        Failure: The id is another plan's, or several plans were chosen on the asset's own page.
    """
    chosen = list(context.partition_keys)
    if plan_id is not None:
        if chosen != [plan_id]:
            raise dg.Failure(
                f"the config's plan is {plan_id}, the partition {', '.join(chosen)}: "
                "nothing was done",
                allow_retries=False,
            )
        return True
    backfill_id = context.run.tags.get(_BACKFILL_TAG)
    beside = context.job_def.asset_layer.selected_asset_keys - {context.asset_key}
    if not beside and len(chosen) == 1 and backfill_id is None:
        return True
    if not beside and backfill_id is not None:
        backfill = context.instance.get_backfill(backfill_id)
        beside = set(backfill.asset_selection or ()) - {context.asset_key} if backfill else beside
    shown = context.asset_key.to_user_string()
    how = f"choose one plan in the partitions of {shown}, or give its id as `plan` in the config"
    if not beside:
        raise dg.Failure(
            f"several plans were chosen at once, nothing was done for {', '.join(chosen)}: {how}",
            allow_retries=False,
        )
    context.log.warning(
        f"{shown} was materialised with other assets, which decides about no plan: {how}"
    )
    return False
