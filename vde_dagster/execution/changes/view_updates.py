"""Updates of the views of production's changes, after each publication.

The module `views` parses SQL, so it is imported only for projects that have or request such views.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.planning.changes.query import SUFFIX
from vde_dagster.planning.environments.environment import PRODUCTION

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


_LOG = logging.getLogger(__name__)


def update_change_views(
    handles: Handles, environment: str, who: str, *, must_succeed: bool = False
) -> None:
    """Update the views of production's recent changes. Other environments have no such views.

    A failed update raises VdeError if `must_succeed` is set, as a cleanup must not continue then.
    Otherwise the failure is logged, and the next publication retries the update.
    """
    if environment != PRODUCTION:
        return
    try:
        wanted = handles.settings.change_views
        if not (wanted or handles.lakehouse.views_ending(PRODUCTION, SUFFIX)):
            return
        from vde_dagster.execution.changes.views import refresh_change_views

        found = refresh_change_views(handles, who)
    except ConflictError as error:
        _LOG.info("%s", error.message)  # Whoever was faster writes them.
    except VdeError as error:
        if must_succeed:
            raise
        _LOG.warning(
            "the views of changes do not show the last publication yet; the next apply, run or "
            "cleanup updates them: %s",
            error.message,
        )
    else:
        for name, why in found.without:
            _LOG.warning("there is no view of the changes of %s: %s", name, why)
