"""Sentences of the planner's reasons, and reasons that stored plans have as sentences."""

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.plan.plan import Change, PlannedModel
from vde_dagster.planning.reasons import Reason, ReasonCode, StoredReason
from vde_dagster.project.serialise import from_bytes, to_bytes
from vde_dagster.reports.plan_json import model_json
from vde_dagster.reports.reasons import describe_reason

NAME, PARENT = ModelName("marts", "daily"), ModelName("staging", "orders")


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (Reason(ReasonCode.KIND, ("VIEW", "FULL")), "kind changed from VIEW to FULL"),
        (Reason(ReasonCode.ROWS), "the query returns other rows"),
        (
            Reason(ReasonCode.ROWS, ("where", "join")),
            "a filter (WHERE) and a join changed, so the query returns other rows",
        ),
        (
            Reason(ReasonCode.ROWS_NOT_UNDERSTOOD, detail="it uses {braces}"),
            "the query returns other rows (not understood: it uses {braces})",
        ),
        (Reason(ReasonCode.COLUMN_ADDED, ("a",)), "column a added"),
        (Reason(ReasonCode.COLUMN_ADDED, ("a", "b")), "column a added (the same values as b)"),
        (
            Reason(ReasonCode.COLUMNS_COMPUTED, ("a", "b", "c")),
            "the values of 3 columns change with the rows: a, b, c",
        ),
        (
            Reason(ReasonCode.COLUMN_COMPUTED, ("a",), upstream=PARENT),
            "upstream, in staging.orders: column a is computed differently",
        ),
        (
            Reason(ReasonCode.PARENT_COLUMN, ("a", "b", "marts.daily.c"), PARENT),
            "staging.orders.a was b before → marts.daily.c",
        ),
        (
            Reason(ReasonCode.PARENT_COLUMN_ROWS, ("a", "", "marts.daily"), PARENT, "filter"),
            "staging.orders.a changed → the rows of marts.daily (filter)",
        ),
        (
            Reason(ReasonCode.PARTS, ("day", "month"), detail="hour"),
            "a partly filled day or month counts as empty, and is filled again hour by hour",
        ),
        (
            Reason(ReasonCode.READS_CLOCK, ("m.a", "m.b"), detail="now()"),
            "reads m.a, which reads m.b, which reads now()",
        ),
        ("written by an earlier version", "written by an earlier version"),
    ],
)
def test_a_reason_has_its_sentence(reason: StoredReason, sentence: str) -> None:
    assert describe_reason(reason) == sentence


@pytest.mark.parametrize("code", ReasonCode)
def test_each_code_has_a_sentence(code: ReasonCode) -> None:
    names = ("where",) * 3
    text = describe_reason(Reason(code, names, PARENT, "the detail"))
    assert text
    assert "{" not in text
    assert "None" not in text


def test_plans_stored_with_sentences_are_read_and_written_as_they_were() -> None:
    stored = to_bytes(
        {
            "name": ("marts", "daily"),
            "change": "modified",
            "category": None,
            "reasons": ["column a removed"],
            "always": "reads now()",
        }
    )
    model = from_bytes(PlannedModel, stored)
    assert model == PlannedModel(
        NAME, Change.MODIFIED, None, ("column a removed",), always="reads now()"
    )
    assert from_bytes(PlannedModel, to_bytes(model)) == model
    shown = model_json(model)
    assert (shown["reasons"], shown["reason_codes"]) == (["column a removed"], [None])
    assert shown["computed_always"] == "reads now()"


def test_json_has_the_sentences_and_the_codes() -> None:
    reasons = (Reason(ReasonCode.COLUMN_REMOVED, ("a",)), Reason(ReasonCode.AUDITS))
    shown = model_json(PlannedModel(NAME, Change.MODIFIED, None, reasons))
    assert shown["reasons"] == ["column a removed", "audits changed"]
    assert shown["reason_codes"] == ["column_removed", "audits"]
