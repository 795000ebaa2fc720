"""Additional project files that environments store, and the exposures in these files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vde_dagster.base.plugins import Seam
from vde_dagster.planning.plan.plan import Plan

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.environments.environment import Environment
    from vde_dagster.project.model import Exposure


@dataclass(frozen=True, slots=True)
class Keeper:
    """Functions of a plug-in that stores further project files with an environment.

    Args:
        text: Returns the text to store; empty to store none, None to keep the environment's text.
            Equal files must give equal texts.
        readers: Returns the exposures that the stored text declares, or None without a text.
        what: Kind of the stored exposures, which replace the files' exposures of this kind.
    """

    text: Callable[[Handles], str | None]
    readers: Callable[[Handles, Environment], Sequence[Exposure] | None]
    what: str


KEEPERS: Seam[Keeper] = Seam("keepers")


def find_readers(
    handles: Handles, environment: Environment, of_files: Sequence[Exposure]
) -> tuple[Exposure, ...]:
    """Combine the files' exposures with exposures that an environment's stored texts declare.

    Raises ProjectError if a stored text can no longer be read.
    """
    readers = tuple(of_files)
    for name in KEEPERS.names():
        keeper = KEEPERS.require(name)
        kept = keeper.readers(handles, environment)
        if kept is not None:
            readers = (*(one for one in readers if one.what != keeper.what), *kept)
    return readers


def add_kept_texts(handles: Handles, plan: Plan, kept: Mapping[str, str]) -> Plan:
    """Add to a plan the texts that plug-ins store with its environment, such as metric files.

    Args:
        kept: The texts that the environment stores now, by the plug-in's name.

    Raises:
        ProjectError: A plug-in cannot read its files.
    """
    texts = {name: KEEPERS.require(name).text(handles) for name in KEEPERS.names()}
    found = {name: kept.get(name, "") if text is None else text for name, text in texts.items()}
    # Texts of absent plug-ins stay.
    made = {name: text for name, text in {**kept, **found}.items() if text}
    names = sorted({*made, *kept})
    other = tuple(name for name in names if made.get(name) != kept.get(name))
    return replace(plan, kept=made, other_kept=other)
