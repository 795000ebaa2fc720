"""Search for masked texts that still show a secret, with random secrets in many forms."""

from __future__ import annotations

import json
import logging
import random
import string
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus

from vde_dagster.base import secrets
from vde_dagster.base.secrets import mask, mask_logs, remember_secret, remember_url
from vde_dagster.errors import ExecutionError

ALPHABETS = {
    "letters": string.ascii_letters + string.digits,
    "signs": string.ascii_letters + "!#$%&()*+,-./:;<=>?@[]^_{|}~",
    "quotes": string.ascii_letters + "'\"`\\",
    "other scripts": "äöüßéèñçøå日本語ключ" + string.ascii_lowercase,
    "blanks": string.ascii_lowercase + " \t",
    "lines": string.ascii_lowercase * 2 + "\n",
}
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in a URL": lambda value: f"https://h/x?key={quote(value, safe='')}",
    "in a path of a URL": quote,
    "in a form": lambda value: f"a=1&b={quote_plus(value)}",
    "as Python writes it": repr,
    "in JSON": lambda value: json.dumps({"a": [value]}),
    "in JSON of other scripts": lambda value: json.dumps({"a": value}, ensure_ascii=False),
    "in an error": lambda value: str(ExecutionError(f"it failed: {value}", hint=value)),
    "in a chain of errors": lambda value: _stack(value),
    "in a list": lambda value: str([value, {"a": value}]),
    "in a literal of SQL": lambda value: "SELECT '" + value.replace("'", "''") + "'",
}
AROUND = ("{}", "see {} there", "key={}", "({})", '"{}"', "a\n{}\nb", "x.{}.y")


def _stack(value: str) -> str:
    try:
        try:
            raise OSError(value)
        except OSError as error:
            raise ValueError("it failed") from error
    except ValueError as error:
        return "".join(traceback.format_exception(error))


@dataclass
class Found:
    """Result of a search: how many texts it masked, and the texts that show a secret."""

    texts: int = 0
    shown: list[str] = field(default_factory=list)


@contextmanager
def _forgetting() -> Iterator[None]:
    known, patterns = set(secrets._known), list(secrets._patterns)
    try:
        yield
    finally:
        secrets._known.clear()
        secrets._known.update(known)
        secrets._patterns[:] = patterns


def search(rng: random.Random, count: int) -> Found:
    """Mask texts around random secrets, and return the texts that still show one."""
    found = Found()
    for _ in range(count):
        with _forgetting():
            secrets.forget_secrets()
            name = rng.choice(sorted(ALPHABETS))
            value = "".join(rng.choices(ALPHABETS[name], k=rng.randint(8, 24))).strip()
            if len(value) < 8:
                continue
            remember_secret(value)
            for form, write in FORMS.items():
                text = rng.choice(AROUND).format(write(value))
                found.texts += 1
                if _shows(mask(text), value):
                    found.shown.append(f"{name}, {form}: {mask(text)!r} of {value!r}")
            found.texts += 3
            found.shown += _other_ways(name, value)
    return found


def _shows(text: str, value: str) -> bool:
    """Return whether a text has a value, or half of it, in any form."""
    written = json.dumps(value)[1:-1], quote(value), quote_plus(value), repr(value)[1:-1]
    half = max(6, len(value) // 2)
    forms = {part for one in (value, *written) for part in (one, one[:half], one[-half:])}
    return any(form in text for form in forms if len(form.strip()) >= 6)


def _other_ways(name: str, value: str) -> Iterator[str]:
    data: Any = mask({"a": [value, {"b": f"x {value}"}]})
    if _shows(str(data), value):
        yield f"{name}, data: {data} of {value!r}"
    url = f"postgresql://anna:{quote(value, safe='')}@h/d?password={quote(value, safe='')}"
    secrets.forget_secrets()
    remember_url(url)
    if _shows(mask(f"cannot connect to {url}"), value):
        yield f"{name}, a URL: {mask(url)} of {value!r}"
    remember_secret(value)
    records: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(self.format(record))

    mask_logs()
    log = logging.getLogger("vde_dagster_tests.secret_search")
    log.addHandler(handler := Keeping())
    log.propagate = False
    try:
        raise OSError(value)
    except OSError:
        log.exception("with %s and %r", value, [value])
    finally:
        log.removeHandler(handler)
    if _shows(records[0], value):
        yield f"{name}, a log: {records[0]!r} of {value!r}"
