"""What an exception of other people's code says."""

from __future__ import annotations


def said(error: BaseException) -> str:
    """Return an exception's class and message, whatever its own code does when it is asked."""
    name = type(error).__name__
    try:
        message = str(error)
    except (Exception, SystemExit):
        return f"{name} (its message cannot be read)"
    return f"{name}: {message}"
