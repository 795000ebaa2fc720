"""Ed25519 keys: private keys as PEM, in a file or a variable, and public keys as a line of text."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.api.errors import UsageError
from vde_dagster.api.values import how_to_install

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VARIABLE = "VDE_SIGNING_KEY"
"""The environment variable with a private key's PEM."""
_PREFIX = "ed25519:"
_KEY_BYTES = 32


def make_key(path: Path) -> str:
    """Write a new private key to a file that only its owner can read, and return the public key.

    Raises:
        UsageError: The file exists, or cannot be written.
    """
    _require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        hint = "pass another file: a deleted key cannot be recreated"
        raise UsageError(f"the file {path} already exists", hint=hint) from error
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return encode_public_key(key)


def read_private_key(path: Path | None) -> Ed25519PrivateKey:
    """Read a private key from a file, or from `VDE_SIGNING_KEY`.

    Raises:
        UsageError: The key is missing, has a password, or is not an Ed25519 key. Messages never
            contain any part of the key.
    """
    _require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    where = str(path) if path is not None else f"the variable {VARIABLE}"
    if path is None:
        text = os.environ.get(VARIABLE, "")
        if not text:
            raise UsageError(
                "no key for signing was given",
                hint=f"pass --key FILE, or its PEM in {VARIABLE}; create one: vde keys make NAME",
            )
        data = text.encode()
    else:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read the key {path}: {error.strerror}") from error
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        hint = "create one: vde keys make NAME; keys with a password are not supported"
        raise UsageError(f"{where} has no private Ed25519 key as PEM", hint=hint) from None
    return key


def encode_public_key(key: Ed25519PrivateKey) -> str:
    """Return a key's public part as text for the settings: `ed25519:` and base64."""
    return _PREFIX + b64encode(key.public_key().public_bytes_raw()).decode()


def decode_public_key(public: str) -> bytes | None:
    """Decode a public key, or return None for a text that `encode_public_key` would not write."""
    # Base64 of 32 bytes leaves two bits of its last character unused, so four texts decode to the
    # same key. Only the text that `encode_public_key` writes counts.
    raw = _decode(public.removeprefix(_PREFIX))
    known = public.startswith(_PREFIX) and raw is not None and len(raw) == _KEY_BYTES
    return raw if known else None


def verify_signature(public: str, signature: str, data: bytes) -> bool:
    """Return whether a public key verifies a signature (canonical base64) of `data`."""
    _require_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw, made = decode_public_key(public), _decode(signature)
    if raw is None or made is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(made, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _decode(text: str) -> bytes | None:
    """Decode base64, or return None if the text is not the canonical encoding of its bytes."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        return None
    return raw if b64encode(raw).decode() == text else None


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise UsageError("signatures need `cryptography`", hint=how_to_install("sign")) from error
