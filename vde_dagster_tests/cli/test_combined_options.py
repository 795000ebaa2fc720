"""Options that exclude each other, or have no effect, are refused."""

from __future__ import annotations

import pytest

from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

DAILY = "marts.daily_revenue"

CALLS = (
    "plan prod --summary --explain",
    "plan prod --summary --json",
    "plan prod --summary --format markdown",
    "plan prod --explain --format markdown",
    "plan prod --skip-backfill --start 2024-01-01",
    "plan prod --skip-backfill --min-intervals 1",
    "plan prod --forward-only --effective-from 2024-01-01 --skip-backfill",
    "plan prod --forward-only --effective-from 2024-01-01 --empty-backfill",
    "apply prod --plan prod-1a2b3c4d5e --create",
    f"render {DAILY} --refresh --start 2024-01-01",
    "dag --mermaid --json",
    f"lineage {DAILY}.order_date --impact --down",
    f"test --create {DAILY} --select {DAILY}",
    "test --limit 5",
    f"test --create {DAILY} --var size=1 --var size=2",
    f"test --create {DAILY} --path ../models/orders.yaml",
    f"test --create {DAILY} --path orders.txt",
    "init other --project .",
    "describe dbt --schema",
    "describe json prod --schema",
    "describe json --schema --to schema.json",
    "cost --accuracy --by month",
)

PARTS = (
    *("combined", "requires --create", "skips the backfill", "computes nothing", "twice"),
    "not a YAML file",
)


@pytest.mark.parametrize("call", CALLS)
def test_an_option_that_would_be_ignored_is_refused(
    call: str, template: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(template.root)
    words = [str(template.root) if word == "." else word for word in call.split()]

    done = vde(*words)

    assert done.code == 2, done.out
    message, hint = done.err.splitlines()
    assert any(part in message for part in PARTS)
    assert hint.startswith("hint: ")
    assert done.out == "" or list(done.json) == ["error"]
