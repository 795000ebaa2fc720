"""Hashes that are stored stay what they are: state and caches of earlier commits were made so."""

from __future__ import annotations

import pytest

from vde_dagster.base.hashing import (
    content_digest,
    digest,
    digest_tagged,
    digest_values,
    hex_or_text_bytes,
)


def test_hashes_are_those_of_earlier_commits() -> None:
    assert digest("snapshot", None, "ä", "") == "ca1e90049b83d9accd41c324ecf56f59"
    assert (
        digest_values("select", b"\0" * 16, b"x", 1, True, None).hex()
        == "e0cfceaec50726167c266818cc29204d"
    )
    assert content_digest(b"SELECT 1") == "ec50210dd808f895bae1780e78bbf44d"


def test_a_tag_is_the_first_value() -> None:
    assert digest_tagged("tag", [1, "a"]) == digest_values("tag", 1, "a")


@pytest.mark.parametrize(
    ("one", "other"), [(("a", "b"), ("ab",)), (("a", None), ("a",)), ((None,), ("n",)), ((), ("",))]
)
def test_no_two_sequences_are_written_alike(
    one: tuple[str | None, ...], other: tuple[str | None, ...]
) -> None:
    assert digest(*one) != digest(*other)
    assert digest_values(*one) != digest_values(*other)


def test_what_is_no_hexadecimal_version_is_hashed() -> None:
    version = digest("a")
    assert hex_or_text_bytes(version).hex() == version
    assert hex_or_text_bytes(version.upper()) == digest_values("text", version.upper())
    assert hex_or_text_bytes("no version") == digest_values("text", "no version")
