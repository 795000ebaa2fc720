"""Examples of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.api.errors import (
    ConflictError,
    ExecutionError,
    NoSparkError,
    ProjectError,
    SourceLocation,
    StoreError,
    UsageError,
    VdeError,
    placed,
)


def test_ConflictError() -> None:
    error = ConflictError("prod changed since the plan was made", hint="plan again: vde plan prod")
    assert error.hint == "plan again: vde plan prod"


def test_ExecutionError() -> None:
    error = ExecutionError("the target refused 3 rows", hint="see them with `vde sync status`")
    assert isinstance(error, VdeError)


def test_NoSparkError() -> None:
    error = NoSparkError("Java is not installed", hint="install Java 17")
    assert isinstance(error, VdeError)


def test_ProjectError() -> None:
    place = SourceLocation(Path("syncs/leads.yaml"), 3)
    both = ProjectError.combine(
        [ProjectError("no key is given", location=place), ProjectError("no target is given")]
    )
    assert [one.message for one in both.mistakes] == ["no key is given", "no target is given"]


def test_SourceLocation() -> None:
    assert str(SourceLocation(Path("models/daily.sql"), 4, 7)) == "models/daily.sql:4:7"


def test_StoreError() -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        raise StoreError("the catalog cannot be reached", hint="check the setting catalog_options")


def test_UsageError() -> None:
    with pytest.raises(UsageError):
        raise UsageError("the sync 'lead' does not exist", hint="did you mean leads?")


def test_VdeError() -> None:
    error = VdeError("it failed", hint="try again", location=SourceLocation(Path("a.sql"), 1))
    assert error.message == "it failed"


def test_placed() -> None:
    place = SourceLocation(Path("policies.yaml"), 12)
    with pytest.raises(ProjectError) as caught, placed(place):
        raise ProjectError("the rule has no name")
    assert caught.value.location == place
