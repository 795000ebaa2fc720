"""Which project a folder holds, told by what its settings say and not by where it lies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProjectIdentity:
    """By what a project is known again.

    Args:
        id: The setting `id`, which `vde init` writes; empty where the settings have none.
        name: The project's name.
        named: Whether the settings say the name; otherwise it is the folder's, which checkouts of
            one project need not share.
    """

    id: str
    name: str
    named: bool

    @property
    def certain(self) -> bool:
        """Whether it is the same in every checkout."""
        return bool(self.id) or self.named

    def is_other(self, owner: ProjectIdentity) -> bool:
        """Say whether this is certainly not the project that something belongs to.

        Two ids decide. Where one of both has none, the names do: a project that gets its id later,
        and a branch from before it, are the same. What is known by its folder alone is never
        refused for it.
        """
        if self.id and owner.id:
            return self.id != owner.id
        return owner.certain and self.name != owner.name

    def may_be_other(self, owner: ProjectIdentity) -> bool:
        """Say whether nothing but a folder's name says that this is the project."""
        same = bool(self.id) and self.id == owner.id
        return not same and self.name != owner.name

    def or_known(self, owner: ProjectIdentity) -> ProjectIdentity:
        """Return what is to be remembered of the same project from now on."""
        name = self.name if self.named else owner.name
        return ProjectIdentity(self.id or owner.id, name, self.named or owner.named)

    def __str__(self) -> str:
        """Name the project for people, as its settings do."""
        return f"'{self.name}' (id {self.id})" if self.id else f"'{self.name}'"
