from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from vde_dagster.api.values import PluginSettings, Settings, count
from vde_dagster.plugins.signatures.keys import decode_public_key


@dataclass(frozen=True, slots=True)
class SignaturesSettings(PluginSettings):
    """The table `[tool.vde.signatures]`: trusted keys, and required signatures.

    Args:
        trusted: Public keys by the name of their owner, as `vde keys make` prints them.
        required: The required number of different signers, by environment; 0 by default.
    """

    trusted: dict[str, str] = field(default_factory=dict)
    required: dict[str, int] = field(default_factory=dict)

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        hint = "vde keys make NAME makes a key, and prints the line to write here"
        for name, key in self.trusted.items():
            if decode_public_key(key) is None:
                yield "trusted", f"has no public key of {name}", hint
        if len({decode_public_key(key) for key in self.trusted.values()}) < len(self.trusted):
            yield "trusted", "has one key under two names", "give everyone a separate key"
        for environment, number in self.required.items():
            if name_hint := Settings.environment_hint(environment):
                yield "required", f"has an invalid environment '{environment}'", name_hint
            if not 0 <= number <= len(self.trusted):
                told = f"requires {count(number, 'signature')} for plans of '{environment}'"
                yield (
                    "required",
                    told,
                    f"write at most {len(self.trusted)}, one per key",
                )

    def owner_name(self, public: str) -> str | None:
        """Return the name of a public key's owner, or None for a key that is not trusted."""
        return next((name for name, key in self.trusted.items() if key == public), None)
