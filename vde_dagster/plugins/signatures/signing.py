"""Signing the content of a plan, and verifying signatures."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from vde_dagster.api.errors import UsageError
from vde_dagster.plugins.signatures.keys import encode_public_key, verify_signature
from vde_dagster.plugins.signatures.settings import SignaturesSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PURPOSE = b"vde-dagster: signature of a plan\n"
"""Prefix of the signed bytes, unique to signatures of plans."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature of a plan by one key.

    Args:
        at: The time of signing by the state's clock (UTC, ISO 8601).
        signature: An Ed25519 signature, in base64.
    """

    key: str
    at: str
    signature: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def sign(document: Mapping[str, Any], key: Ed25519PrivateKey, at: str) -> Signature:
    """Sign a plan's document together with the time of signing (UTC, ISO 8601)."""
    made = key.sign(_signed_bytes(document, at))
    return Signature(encode_public_key(key), at, b64encode(made).decode())


def read_signatures(value: object) -> list[Signature]:
    """Parse the signatures of a plan's file.

    Raises:
        UsageError: The value is not a list of signatures, or has an unknown field or two signatures
            by one key.
    """
    try:
        found = msgspec.convert(value, list[Signature])
    except msgspec.ValidationError as error:
        raise _unreadable_error(str(error)) from error
    if _json_bytes([one.to_json() for one in found]) != _json_bytes(value):
        raise _unreadable_error("a signature has key, at and signature, and nothing else")
    keys = [one.key for one in found]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise _unreadable_error(f"two of them are by the key {twice}")
    return found


def _unreadable_error(why: str) -> UsageError:
    return UsageError(
        f"the file's signatures cannot be read: {why}",
        hint="sign the plan's file again: vde plan sign FILE",
    )


def invalid_signatures(
    document: Mapping[str, Any], signatures: Iterable[Signature]
) -> list[Signature]:
    return [
        one
        for one in signatures
        if not verify_signature(one.key, one.signature, _signed_bytes(document, one.at))
    ]


def valid_signers(
    settings: SignaturesSettings, document: Mapping[str, Any], signatures: Iterable[Signature]
) -> list[str]:
    """Return the names of trusted people with a valid signature of a document, each name once."""
    known = [one for one in signatures if settings.owner_name(one.key) is not None]
    bad = invalid_signatures(document, known)
    names = (settings.owner_name(one.key) for one in known if one not in bad)
    return list(dict.fromkeys(name for name in names if name is not None))


def _signed_bytes(document: Mapping[str, Any], at: str) -> bytes:
    return _PURPOSE + _json_bytes([at, document])


def _json_bytes(value: object) -> bytes:
    """Write the JSON that is signed: sorted keys, no whitespace, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")
