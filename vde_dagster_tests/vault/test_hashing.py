"""Hashes of keys and attributes: injective, and exactly those of other tools where asked for."""

from __future__ import annotations

import hashlib
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.errors import ProjectError
from vde_dagster_tests.vault.hashes import attributes_text, expanded, key_text, parts_in, text_of
from vde_dagster_tests.yaml_files import read_yaml

COMPATIBLE = read_yaml(Path(__file__).with_name("compatible_hashes.yaml"))

TEXTS = st.text(st.sampled_from("~|N01=^'\"\\ \u3000eé\u0301Aa\n"), max_size=6)
VALUES = st.one_of(st.none(), TEXTS)
ATTRIBUTES = st.dictionaries(st.sampled_from("abc"), TEXTS)


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_the_text_of_a_key_tells_its_columns(values: list[str | None]) -> None:
    text = key_text(values)
    assert values == ([None] * len(values) if text is None else parts_in(text))


@given(ATTRIBUTES, ATTRIBUTES)
def test_attributes_that_differ_have_other_texts(one: dict[str, str], two: dict[str, str]) -> None:
    assert (attributes_text(one) == attributes_text(two)) == (one == two)


def test_a_plain_key_has_its_own_text_and_a_new_column_none_while_it_is_null() -> None:
    assert key_text(["C-17"]) == "C-17"
    assert attributes_text({"a": 1, "b": None}) == attributes_text({"a": 1}) == "a=1"
    assert attributes_text({"a": None, "b": 1}) != attributes_text({"a": 1, "b": None})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.500"), "1.5"),
        (Decimal("-0.50"), "-0.5"),
        (Decimal("100"), "100"),
        (Decimal("0.00"), "0"),
        (date(2024, 2, 29), "2024-02-29"),
        (datetime(2024, 2, 29, 1, 2, 3), "2024-02-29 01:02:03.000000"),
        (True, "true"),
        (b"\x00\xff", "AP8="),
    ],
)
def test_a_value_has_one_text(value: object, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize("case", COMPATIBLE, ids=lambda case: case["name"])
def test_hashes_of_other_tools_are_those_of_the_texts_by_their_rules(case: dict[str, str]) -> None:
    if case["text"] is not None:
        made = hashlib.new(case["algorithm"], case["text"].encode()).hexdigest()
        assert made == case["hash"].lower()


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("@HASH_KEY()", "takes at least one column", "write @HASH_KEY(a, b)"),
        ("@HASH_KEY(a, algorithm := 'crc')", "algorithm cannot be 'crc'", "md5, sha1, sha256"),
        ("@HASH_KEY(a, compat := 'automatedv')", "compat cannot be", "did you mean 'automate_dv'?"),
        ("@HASH_KEY(a, nulls := 'one')", "nulls cannot be 'one'", "null, zero"),
        ("@HASH_KEY(a, case_sensitive := TRUE)", "needs a compat mode", "UPPER(TRIM(a))"),
        ("@HASHDIFF(TRIM(a))", "'TRIM(a)' has none", "write @HASHDIFF(TRIM(a) AS name)"),
        ("@HASHDIFF(x.a, y.a)", "two columns 'a'", "rename one of them"),
        ("@HASHDIFF(a, multi_active := b)", "takes multi_active with", "set_key"),
        ("@HASHDIFF(a, multi_active := b, compat := 'automate_dv')", "does not hash sets", "rows"),
        ("@HASH_KEY(a, form := 'binary', compat := 'datavault4dbt')", "no binary form", "text"),
        ("@GHOST('never')", "the first argument cannot be 'never'", "error, time, unknown"),
    ],
)
def test_a_wrong_call_says_what_to_write(call: str, message: str, hint: str) -> None:
    with pytest.raises(ProjectError) as raised:
        expanded(call)
    assert message in raised.value.message
    assert hint in str(raised.value.hint)


def test_variables_of_the_project_say_the_defaults() -> None:
    variables = {"vault_hash": "sha1", "vault_hash_form": "binary"}
    assert expanded("@GHOST()", variables) == f"UNHEX('{'0' * 40}')"
    assert expanded("@GHOST('error', algorithm := 'md5', form := 'text')", variables) == (
        f"'{'f' * 32}'"
    )
    assert "'^^||^^'" in expanded("@HASH_KEY(a, b)", {"vault_compat": "automate_dv"})
