"""What environments keep of the project's files beside the models, and who reads models by that."""

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
    """What an environment keeps of the project's files beside the models.

    Args:
        text: Returns it: empty for nothing, None to leave what the environment has. Equal files
            give equal texts.
        readers: Returns who reads models by what an environment keeps; None where it keeps none.
        what: The kind of those readers, in place of which they are for that environment.
    """

    text: Callable[[Handles], str | None]
    readers: Callable[[Handles, Environment], Sequence[Exposure] | None]
    what: str


KEEPERS: Seam[Keeper] = Seam("keepers")


def readers_of(
    handles: Handles, environment: Environment, of_files: Sequence[Exposure]
) -> tuple[Exposure, ...]:
    """Return who reads what an environment shows, by what it keeps and by the files for the rest.

    Raises:
        ProjectError: What is kept cannot be read any more.
    """
    readers = tuple(of_files)
    for name in KEEPERS.names():
        keeper = KEEPERS.require(name)
        kept = keeper.readers(handles, environment)
        if kept is not None:
            readers = (*(one for one in readers if one.what != keeper.what), *kept)
    return readers


def with_kept(handles: Handles, plan: Plan, kept: Mapping[str, str]) -> Plan:
    """Add what plug-ins keep of the project's files with the environment.

    Args:
        kept: What the environment has so far, by the plug-ins' names.

    Raises:
        ProjectError: A plug-in cannot read what it keeps.
    """
    said = {name: KEEPERS.require(name).text(handles) for name in KEEPERS.names()}
    found = {name: kept.get(name, "") if text is None else text for name, text in said.items()}
    # What an absent plug-in keeps stays.
    made = {name: text for name, text in {**kept, **found}.items() if text}
    names = sorted({*made, *kept})
    other = tuple(name for name in names if made.get(name) != kept.get(name))
    return replace(plan, kept=made, other_kept=other)
