"""Versions of installed packages, read without importing them, and how to get what is missing."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

_WRITTEN = re.compile(r"""^__version__\b[^'"\n]*['"]([^'"]+)['"]""", re.MULTILINE)


def version_of(package: str) -> str:
    """Return the version of an installed package whose folder and distribution have one name.

    `importlib.metadata` knows it too, and brings the parsers of e-mails with it, for a tenth of
    the time that a short command takes; it is asked where the package does not say it itself.

    Args:
        package: The package, such as `sqlglot`.

    Raises:
        importlib.metadata.PackageNotFoundError: It is not installed.

    >>> version_of("sqlglot").split(".")[0].isdigit()
    True
    """
    known = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(known, str):
        return known
    spec = find_spec(package)
    if spec is not None and spec.origin is not None:
        written = Path(spec.origin).parent / "_version.py"
        found = _WRITTEN.search(written.read_text("utf-8")) if written.is_file() else None
        if found is not None:
            return found[1]
    from importlib.metadata import version

    return version(package)


def how_to_install(extra: str) -> str:
    """Say how to install this package with an extra: no index has it."""
    return (
        f"install this package with its extra `{extra}`, from its wheel or by Git: "
        f"pip install 'vde-dagster[{extra}] @ git+URL'"
    )
