"""Masking of secrets of settings in all text that leaves the process.

Every value of `${NAME}`, and every setting whose name suggests a secret, is recorded when settings
are read. `mask` replaces recorded values, and credentials in URLs.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any, TextIO, TypeVar, cast
from urllib.parse import quote, quote_plus

T = TypeVar("T")
MASK = "***"
_SHORTEST = 4
"""Minimum length of a masked value: shorter ones occur in too many words."""
_INSIDE_WORDS = 8
"""Minimum length of values that are replaced within words, too."""
_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase|code)?s?$|pwd|secret|token|(?:api|access|account|private|ssl|"
    r"shared|sas|encryption|signing|master)[._-]?key$|credential|(?:^|[._-])(?:sas|sig|signature|auth|bearer|jwt)"
    r"(?:$|[._-])|authorization|cookie|connection[._-]string|sslpassword",
    re.IGNORECASE,
)
_NOT_SECRET_NAME = re.compile(r"key[._-]?id$|endpoint|uri$|file$|path$", re.IGNORECASE)
_SAFE_QUERY = frozenset(
    # PostgreSQL's own, as psycopg reads them from a URL.
    {
        "application_name",
        "client_encoding",
        "connect_timeout",
        "dbname",
        "fallback_application_name",
    }
    | {"gssencmode", "host", "hostaddr", "keepalives", "keepalives_idle", "load_balance_hosts"}
    | {"port", "service", "sslmode", "sslrootcert", "target_session_attrs", "tcp_user_timeout"}
    | {"user", "charset", "cache", "mode", "nolock", "timeout", "uri"}
    # Pages that a person opens in a browser.
    | {"environment", "from", "limit", "page", "partition", "per_page", "ref", "region", "schema"}
    | {"selected", "tab", "to", "version", "view", "warehouse", "branch", "column", "model"}
)
_URL = re.compile(r"(?<![\w+.-])([a-z][a-z0-9+.-]*(?::[a-z][a-z0-9+.-]*)?://)([^\s<>\"'`]+)", re.I)
_LOGIN = re.compile(r"^([^/?#@:]*):([^/?#]*)@")
_DATABASE_LOGIN = re.compile(r"^([^/?#@:]*):([^@]*)@")
"""Login in a database's URL. Unlike in other URLs, its password may contain `/`, `?` and `#`."""
_PARAMETER = re.compile(r"([?&;])([^=&;#\s]+)=([^&;#\s]*?)(?=[).,\]}]*(?:[&;#\s]|$))")
_DSN = re.compile(
    r"(?<![\w-])((?:ssl)?password|passwd|pwd|sslkey|account_?key|sas_?token)=(?!\*\*\*)"
    r"('[^']*'|\"[^\"]*\"|[^\s&;,'\")]+)",
    re.IGNORECASE,
)

_known: set[str] = set()
_patterns: list[re.Pattern[str]] = []
_lock = threading.Lock()


@lru_cache(maxsize=1000)
def names_secret(name: str) -> bool:
    """Return whether a setting's name suggests a secret.

    >>> names_secret("s3.secret-access-key"), names_secret("s3.endpoint")
    (True, False)
    """
    return _SECRET_NAME.search(name) is not None and _NOT_SECRET_NAME.search(name) is None


def remember_secret(value: str | None) -> None:
    """Record a secret of at least 4 characters, to be masked in all later texts."""
    if value is None or len(value.strip()) < _SHORTEST or value in _known:
        return
    with _lock:
        # Texts may contain it as it is, in a URL, in a literal of Python, JSON or SQL, or by line.
        forms = {value, quote(value), quote(value, safe=""), quote_plus(value), repr(value)[1:-1]}
        forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
        forms.add(value.replace("'", "''"))
        lines = {line.strip() for line in value.splitlines() if len(line.strip()) >= _INSIDE_WORDS}
        _known.update(forms | lines)
        known = sorted(_known, key=len, reverse=True)
        parts = [
            re.escape(one) if len(one) >= _INSIDE_WORDS else rf"(?<!\w){re.escape(one)}(?!\w)"
            for one in known
        ]
        _patterns[:] = [re.compile("|".join(parts))]


def forget_secrets() -> None:
    """Forget all recorded values, as if no settings had been read."""
    with _lock:
        _known.clear()
        _patterns.clear()


def remember_url(url: str) -> None:
    """Record a URL's password, and query values such as `sslpassword`, for masking."""
    found = _URL.match(url)
    if found is None:
        return
    login = _login_pattern(found[1]).match(found[2])
    if login is not None:
        remember_secret(login[2])
    for parameter in _PARAMETER.finditer(found[2]):
        if names_secret(parameter[2]):
            remember_secret(parameter[3])


def mask(value: T) -> T:
    """Replace known secrets, and credentials in URLs, in a text or in JSON data.

    >>> mask("postgresql://anna:pw@host/db?sslmode=require&sslpassword=x")
    'postgresql://anna:***@host/db?sslmode=require&sslpassword=***'
    """
    found: Any = value
    if isinstance(value, str):
        found = _mask_text(value)
    elif isinstance(value, Mapping):
        found = {key: mask(one) for key, one in value.items()}
    elif isinstance(value, list | tuple):
        found = [mask(one) for one in value]
    return cast("T", found)


def _mask_text(text: str) -> str:
    for pattern in _patterns:
        text = pattern.sub(MASK, text)
    if "://" in text:
        text = _URL.sub(lambda found: f"{found[1]}{_mask_url_rest(*found.groups())}", text)
    return _DSN.sub(rf"\1={MASK}", text) if "=" in text else text


def _login_pattern(scheme: str) -> re.Pattern[str]:
    return _LOGIN if scheme.lower().startswith(("http", "file")) else _DATABASE_LOGIN


def _mask_url_rest(scheme: str, rest: str) -> str:
    rest = _login_pattern(scheme).sub(rf"\1:{MASK}@", rest)
    return _PARAMETER.sub(_mask_parameter, rest) if "=" in rest else rest


def _mask_parameter(found: re.Match[str]) -> str:
    is_safe = found[2].lower() in _SAFE_QUERY or not found[3]
    return found[0] if is_safe else f"{found[1]}{found[2]}={MASK}"


class _MaskedStream:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(mask(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def masking_output() -> Iterator[None]:
    """Replace secrets by `***` in standard output and error in the block, and in all later logs."""
    import sys

    mask_logs()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_MaskedStream(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def mask_logs() -> None:
    """Replace secrets by `***` in all later log records of this process."""
    make = logging.getLogRecordFactory()
    if not getattr(make, "vde_masks", False):
        logging.setLogRecordFactory(_wrap_record_factory(make))


def _wrap_record_factory(
    make: Callable[..., logging.LogRecord],
) -> Callable[..., logging.LogRecord]:
    @wraps(make)
    def masked_record(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = make(*arguments, **named)
        try:
            text = record.getMessage()
        except Exception:  # The logger reports a message that does not fit its arguments.
            return record
        shown = mask(text)
        if shown != text:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
            stack = logging.Formatter().formatException(record.exc_info)
            if mask(stack) != stack:
                record.exc_text = mask(stack)
        return record

    masked_record.vde_masks = True  # type: ignore[attr-defined]
    return masked_record
