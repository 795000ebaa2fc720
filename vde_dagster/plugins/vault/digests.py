"""Hash functions as Spark SQL, and the two special keys: all zeros, and all ones."""

from __future__ import annotations

from typing import NamedTuple

ALGORITHMS = {"md5": 32, "sha1": 40, "sha256": 64}
"""Number of hexadecimal digits of a hash."""


class Digest(NamedTuple):
    """A hash function and the form of its result.

    Args:
        algorithm: One of `ALGORITHMS`.
        binary: Whether the result is bytes; otherwise hexadecimal digits.
        upper: Whether hexadecimal digits are in upper case, such as `9E10`.
    """

    algorithm: str
    binary: bool
    upper: bool = False

    def hash_text(self, text: str) -> str:
        """Write the SQL of a text's hash, which is NULL for NULL."""
        sha256 = self.algorithm == "sha256"
        digits = f"SHA2({text}, 256)" if sha256 else f"{self.algorithm.upper()}({text})"
        if self.binary:
            return f"UNHEX({digits})"
        return f"UPPER({digits})" if self.upper else digits

    @property
    def zero_key(self) -> str:
        """The key for unknown values: all digits are 0."""
        return self._literal("0")

    @property
    def error_key(self) -> str:
        """The key for invalid values: all digits are F."""
        return self._literal("F" if self.upper else "f")

    def _literal(self, digit: str) -> str:
        digits = digit * ALGORITHMS[self.algorithm]
        return f"UNHEX('{digits}')" if self.binary else f"'{digits}'"
