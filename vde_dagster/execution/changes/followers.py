"""Production's views of changes follow its publications.

A module of its own: a project that has no such views reads nothing for them, and parses no SQL.
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


def follow(handles: Handles, environment: str, who: str, *, first: bool = False) -> None:
    """Let the views of changes follow a publication; a failure is logged, and made up for later.

    Args:
        first: Whether something else may only happen once they have followed.

    Raises:
        StoreError: Only where they have to follow first.
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
        if first:
            raise
        _LOG.warning(
            "the views of changes do not show the last publication yet, which the next apply, "
            "run or clean-up makes up for: %s",
            error.message,
        )
    else:
        for name, why in found.without:
            _LOG.warning("there is no view of the changes of %s: %s", name, why)
