"""Secrets in settings: `${NAME}` is replaced when a value is used, and messages show `***`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

from vde_dagster.base.secrets import names_secret, remember_secret, remember_url
from vde_dagster.errors import ProjectError

T = TypeVar("T")


def expand_secrets(value: T, name: str = "") -> T:
    """Replace `${NAME}` in texts, lists and tables by the values of environment variables.

    `name` is the value's key.

    Raises:
        ProjectError: A variable is not set.
    """
    # Messages omit values of secret keys, both parts of credentials, and passwords of URLs.
    found: Any = value
    if isinstance(value, str):
        found = re.sub(r"\$\{(\w+)\}", _read_variable, value)
        if names_secret(name):
            parts = found.split(":") if "credential" in name else ()
            for part in (found, *parts):
                remember_secret(part)
        if "://" in found:
            remember_url(found)
    elif isinstance(value, Mapping):
        found = {key: expand_secrets(one, str(key)) for key, one in value.items()}
    elif isinstance(value, list | tuple):
        found = type(value)(expand_secrets(one, name) for one in value)
    return cast("T", found)


def _read_variable(match: re.Match[str]) -> str:
    name = match.group(1)
    if name not in os.environ:
        raise ProjectError(
            f"the settings use the environment variable {name}, which is not set",
            hint=f"set {name} in the environment",
        )
    remember_secret(os.environ[name])
    return os.environ[name]


def remember_secrets(value: Any, name: str = "") -> None:
    """Record the secrets in settings, so that messages show `***` instead.

    Secrets are the values of `${NAME}`, values whose key suggests a secret, and passwords in URLs.
    """
    if isinstance(value, str):
        if "${" in value:
            for variable in re.findall(r"\$\{(\w+)\}", value):
                remember_secret(os.environ.get(variable))
        elif names_secret(name):
            remember_secret(value)
        if "://" in value:
            remember_url(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            remember_secrets(part, str(key))
    elif isinstance(value, list | tuple):
        for part in value:
            remember_secrets(part, name)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            remember_secrets(getattr(value, one.name), one.name)
