from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProjectIdentity:
    """The id and the name of a project, which its state store records.

    Args:
        id: The setting `id`, which `vde init` writes; empty if not set.
        named: Whether the name is a setting, and not the name of the folder.
    """

    id: str
    name: str
    named: bool

    @property
    def same_in_all_checkouts(self) -> bool:
        """Whether every checkout of the project has the same id or name."""
        return bool(self.id) or self.named

    def is_other(self, owner: ProjectIdentity) -> bool:
        """Return whether `owner` counts as another project, so that its state store is refused."""
        # A project may get its id later, so a missing id proves nothing.
        # The name of the owner's folder proves nothing, either.
        if self.id and owner.id:
            return self.id != owner.id
        return owner.same_in_all_checkouts and self.name != owner.name

    def may_be_other(self, owner: ProjectIdentity) -> bool:
        """Return whether `owner` may be another project.

        This is so if the names differ, unless both have the same id.
        """
        same = bool(self.id) and self.id == owner.id
        return not same and self.name != owner.name

    def or_known(self, owner: ProjectIdentity) -> ProjectIdentity:
        """Fill the missing parts of this identity from the state store's owner."""
        name = self.name if self.named else owner.name
        return ProjectIdentity(self.id or owner.id, name, self.named or owner.named)

    def __str__(self) -> str:
        return f"'{self.name}' (id {self.id})" if self.id else f"'{self.name}'"
