"""The table `[tool.vde.signatures]`: whose keys are trusted, and what has to be signed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from vde_dagster.plugins.signatures.keys import public_bytes
from vde_dagster.project.settings import PluginSettings


@dataclass(frozen=True, slots=True)
class SignaturesSettings(PluginSettings):
    """Whose signatures a project trusts, and how many each environment asks for.

    Args:
        trusted: Public keys by whose they are, as `vde keys make` prints them.
        required: By environment, of how many different people; none where nothing is said.
    """

    trusted: dict[str, str] = field(default_factory=dict)
    required: dict[str, int] = field(default_factory=dict)

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        """Find texts that are not keys, keys of two people, and too few keys for what is asked."""
        hint = "vde keys make NAME makes a key, and prints the line to write here"
        for name, key in self.trusted.items():
            if public_bytes(key) is None:
                yield "trusted", f"has no public key of {name}", hint
        if len({public_bytes(key) for key in self.trusted.values()}) < len(self.trusted):
            yield "trusted", "has one key under two names", "let everybody have a key of their own"
        for environment, number in self.required.items():
            if not re.fullmatch("[a-z0-9_]+", environment):
                yield "required", f"has no environment's name '{environment}'", "write prod = 1"
            if not 0 <= number <= len(self.trusted):
                told = f"asks for {number} signatures of '{environment}'"
                yield "required", told, f"the keys of {len(self.trusted)} are trusted"

    def who(self, public: str) -> str | None:
        """Return whose a public key is; None for one that is not trusted."""
        return next((name for name, key in self.trusted.items() if key == public), None)
