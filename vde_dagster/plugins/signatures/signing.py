"""Signing a plan's content, and verifying its signers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from vde_dagster.api.errors import UsageError
from vde_dagster.plugins.signatures.keys import is_signature, public_key
from vde_dagster.plugins.signatures.settings import SignaturesSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PURPOSE = b"vde-dagster: signature of a plan\n"
"""Prefix of the signed bytes, unique to signatures of plans."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature of a plan.

    Args:
        key: The public key.
        at: The time of signing by the signer's clock (UTC, ISO 8601).
        signature: An Ed25519 signature, in base64.
    """

    key: str
    at: str
    signature: str

    def to_json(self) -> dict[str, str]:
        """Return the form in a plan's file."""
        return asdict(self)


def sign(document: Mapping[str, Any], key: Ed25519PrivateKey, at: str) -> Signature:
    """Sign a plan's document at an instant (UTC, ISO 8601)."""
    made = key.sign(_signed(document, at))
    return Signature(public_key(key), at, b64encode(made).decode())


def read_signatures(value: object) -> list[Signature]:
    """Read the signatures of a plan's file, each key once.

    Raises:
        UsageError: The value has another form, an unknown field, or two signatures by one key.
    """
    try:
        found = msgspec.convert(value, list[Signature])
    except msgspec.ValidationError as error:
        raise _unreadable(str(error)) from error
    if _json_bytes([one.to_json() for one in found]) != _json_bytes(value):
        raise _unreadable("a signature has key, at and signature, and nothing else")
    keys = [one.key for one in found]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise _unreadable(f"two of them are by the key {twice}")
    return found


def _unreadable(why: str) -> UsageError:
    return UsageError(
        f"the file's signatures cannot be read: {why}", hint="sign the plan's file again"
    )


def wrong(document: Mapping[str, Any], signatures: Iterable[Signature]) -> list[Signature]:
    """Return the signatures that do not match this document."""
    return [
        one
        for one in signatures
        if not is_signature(one.key, one.signature, _signed(document, one.at))
    ]


def signers(
    settings: SignaturesSettings, document: Mapping[str, Any], signatures: Iterable[Signature]
) -> list[str]:
    """Return the names of a document's valid signers, each once."""
    known = [one for one in signatures if settings.who(one.key) is not None]
    bad = wrong(document, known)
    names = (settings.who(one.key) for one in known if one not in bad)
    return list(dict.fromkeys(name for name in names if name is not None))


def _signed(document: Mapping[str, Any], at: str) -> bytes:
    return _PURPOSE + _json_bytes([at, document])


def _json_bytes(value: object) -> bytes:
    """Write JSON in its signed form: sorted keys, no whitespace, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")
