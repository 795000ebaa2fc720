"""Serialization of frozen dataclasses with msgspec, as MessagePack or JSON.

Hooks handle types that msgspec does not support: paths, and kinds, whose classes differ in fields.
Missing fields of a stored value get their defaults, so a class may gain fields. Source:
https://jcristharif.com/msgspec/supported-types.html
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import date, datetime
from functools import cache, lru_cache
from pathlib import Path, PurePath
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from vde_dagster.project.kinds import Kind
from vde_dagster.project.kinds.base import as_tuples
from vde_dagster.project.model import UnitTest

T = TypeVar("T")


def to_bytes(value: object) -> bytes:
    """Write a value as MessagePack."""
    try:
        return _ENCODER.encode(value)
    except OverflowError:
        plain = msgspec.to_builtins(
            value, builtin_types=_TIMES, str_keys=False, enc_hook=_encode_hook
        )
        return _ENCODER.encode(_mark_values(plain, (int,)))


def from_bytes(form: type[T], data: bytes) -> T:
    """Read a value that `to_bytes` wrote; raise ValueError if the data is damaged."""
    return cast(T, _decoder(cast(Any, form)).decode(data))


def to_text(value: object) -> str:
    """Write a value as JSON."""
    return msgspec.json.encode(value, enc_hook=_encode_hook).decode()


def from_text(form: type[T], text: str) -> T:
    """Read a value that `to_text` wrote; raise ValueError if the data is damaged."""
    return cast(T, _text_decoder(cast(Any, form)).decode(text))


def to_plain(value: object) -> Any:
    """Convert a value to JSON types: dictionaries, lists, texts, numbers."""
    return msgspec.to_builtins(value, enc_hook=_encode_hook)


def from_plain(form: type[T], data: object) -> T:
    """Read a value from JSON types; raise ValueError if the data has another form."""
    with _BUILDING:
        return msgspec.convert(data, form, dec_hook=_decode_hook)


def field_types(form: type, *, without: str) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name, except for the field `without`."""
    return {name: kind for name, kind in get_type_hints(form).items() if name != without}


def dump_tests(tests: Iterable[UnitTest]) -> bytes:
    """Write unit tests as MessagePack."""
    plain = msgspec.to_builtins(
        tuple(tests), builtin_types=_TIMES, str_keys=False, enc_hook=_encode_hook
    )
    # Rows have values of any type, so the types of their times are marked.
    return _ENCODER.encode(_mark_values(plain, _MARKED_TYPES))


def load_tests(data: bytes) -> tuple[UnitTest, ...]:
    plain = msgspec.msgpack.decode(data, ext_hook=_unmark_value)
    return msgspec.convert(plain, tuple[UnitTest, ...], builtin_types=_TIMES, dec_hook=_decode_hook)


_TIMES = (bytes, datetime, date)
_MARKED_TYPES = (int, datetime, date)
"""Types whose values in rows MessagePack does not support, except for small integers."""


def _mark_values(value: Any, types: tuple[type, ...]) -> Any:
    if isinstance(value, list | tuple):
        return [_mark_values(item, types) for item in value]
    if isinstance(value, dict):
        return {_mark_values(key, types): _mark_values(item, types) for key, item in value.items()}
    if type(value) not in types or (type(value) is int and value.bit_length() < 64):
        return value
    return msgspec.msgpack.Ext(_MARKED_TYPES.index(type(value)), str(value).encode())


def _unmark_value(code: int, text: memoryview) -> Any:
    form: Any = _MARKED_TYPES[code]
    return getattr(form, "fromisoformat", form)(str(text, "ascii"))


def _encode_hook(value: Any) -> str:
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, str):  # a Hint is stored as its text
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no stored form")


def _decode_hook(form: type, data: Any) -> Any:
    if form is Path:
        return _path(data)
    if form is object:
        return as_tuples(data)
    if form is Kind:
        try:
            return Kind.from_json(data)
        except (AttributeError, KeyError) as error:
            raise ValueError(f"unknown kind {data}") from error
    raise NotImplementedError(f"{form.__name__} has no stored form")


_path = lru_cache(4096)(Path)
_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_hook)


_BUILDING = threading.RLock()
"""Lock for creating decoders. For recursive types, msgspec caches a dataclass before it is
complete: another thread that uses the incomplete entry crashes the process.
"""


@cache
def _text_decoder(form: Any) -> msgspec.json.Decoder[Any]:
    with _BUILDING:
        return msgspec.json.Decoder(form, dec_hook=_decode_hook)


@cache
def _decoder(form: Any) -> msgspec.msgpack.Decoder[Any]:
    with _BUILDING:
        return msgspec.msgpack.Decoder(form, dec_hook=_decode_hook, ext_hook=_unmark_value)
