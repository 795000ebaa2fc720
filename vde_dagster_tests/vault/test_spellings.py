"""HUB, SATELLITE and the others are FIRST_SEEN and CHANGES with a vault's defaults."""

from __future__ import annotations

import pytest

from vde_dagster.api.kinds import Kind
from vde_dagster.errors import ProjectError
from vde_dagster_tests.vault.tables import kind_of

COLUMNS = "time ldts, source rsrc"
SPELLED = [
    ("HUB (key hk)", f"FIRST_SEEN (key hk, {COLUMNS})"),
    ("HUB (key hk, time t, lookback 1)", "FIRST_SEEN (key hk, time t, source rsrc, lookback 1)"),
    ("LINK (key (a, b))", f"FIRST_SEEN (key (a, b), {COLUMNS})"),
    ("NON_HISTORIZED_LINK (key e)", f"FIRST_SEEN (key e, {COLUMNS})"),
    ("REFERENCE (key code, source origin)", "FIRST_SEEN (key code, time ldts, source origin)"),
    ("RECORD_TRACKING (key hk)", f"FIRST_SEEN (key (hk, ldts, rsrc), {COLUMNS})"),
    ("SATELLITE (key hk, compare hd)", f"CHANGES (key hk, {COLUMNS}, compare hd)"),
    ("MULTI_ACTIVE_SATELLITE (key a, set_key b)", f"CHANGES (key a, {COLUMNS}, set_key b)"),
    ("EFFECTIVITY_SATELLITE (key a, set_key b)", f"CHANGES (key a, {COLUMNS}, set_key b)"),
    ("STATUS_TRACKING (key hk)", f"CHANGES (key hk, {COLUMNS}, absent DELETE)"),
]


@pytest.mark.parametrize(("spelled", "meant"), SPELLED)
def test_a_spelling_is_a_kind_with_defaults(spelled: str, meant: str) -> None:
    assert kind_of(spelled) == kind_of(meant)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("HUB (time t)", "kind HUB requires 'key'", "write kind HUB"),
        ("HUB (keys a)", "kind HUB has no property 'keys'", "key"),
        ("MULTI_ACTIVE_SATELLITE (key a)", "requires 'set_key'", "set_key"),
        ("SATELLITE (key a, most_deleted 0.1)", "'most_deleted' needs 'absent DELETE'", ""),
        ("SATELITE (key a)", "unknown kind 'SATELITE'", "SATELLITE"),
    ],
)
def test_a_wrong_header_gives_place_and_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(ProjectError, match=message) as raised:
        kind_of(text)
    assert raised.value.location is not None
    assert hint in (raised.value.hint or "")


def test_what_is_stored_has_the_name_of_the_kind_that_is_meant() -> None:
    assert kind_of("HUB (key hk)").name == "FIRST_SEEN"
    stored = {"name": "FIRST_SEEN", "key": ["hk"], "time": "ldts", "source": "rsrc"}
    assert Kind.from_json(stored) == kind_of("HUB (key hk)")
