"""A plan's file and a key have one spelling each: other bytes for the same values are refused."""

from __future__ import annotations

import json
import random
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.execution.plans.plan_file import PlanFiles
from vde_dagster.execution.plans.plan_spelling import file_bytes
from vde_dagster.plugins.signatures.settings import SignaturesSettings
from vde_dagster.plugins.signatures.signing import read_signatures
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.signatures.conftest import Team
from vde_dagster_tests.signatures.test_plan_files import refused
from vde_dagster_tests.signatures.test_signatures import plan, sign

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def respelled(text: str, padding: str) -> list[str]:
    """Return the other texts that lenient decoders of base64 take for the same bytes."""
    last = text[-len(padding) - 1]
    unused = 2 if len(padding) == 1 else 4
    place = ALPHABET.index(last)
    others = [ALPHABET[(place >> unused << unused) + more] for more in range(1 << unused)]
    found = [text[: -len(padding) - 1] + one + padding for one in others if one != last]
    bytes_of = {b64decode(one.removeprefix("ed25519:")) for one in (text, *found)}
    assert len(bytes_of) == 1, bytes_of
    return found


@pytest.fixture
def signed(team: Team, vde: Vde) -> Team:
    """A plan's file that anna has signed, where one signature is enough."""
    team.trusting("anna", "ben", prod=1)
    plan(team, vde)
    sign(team, vde, "anna")
    return team


RESPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "a blank": lambda data: data.replace(b'": ', b'":  ', 1),
    "no blanks": lambda data: json.dumps(json.loads(data), sort_keys=True).encode(),
    "another order": lambda data: json.dumps(
        dict(reversed(json.loads(data).items())), indent=1
    ).encode(),
    "Windows line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "no line end": lambda data: data.rstrip(b"\n"),
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "an escape": lambda data: data.replace(b"prod", b"pro\\u0064", 1),
    "an escaped slash": lambda data: data.replace(b"models/", b"models\\/", 1),
    "trailing values": lambda data: data + b"{}\n",
    "trailing blanks": lambda data: data + b" ",
    "a NUL behind it": lambda data: data + b"\0",
    "one key twice": lambda data: data.replace(
        b'"environment": "prod"', b'"environment": "dev",\n  "environment": "prod"', 1
    ),
    "one key twice in the same words": lambda data: data.replace(
        b'"form":', b'"form": "vde-plan-1",\n "form":', 1
    ),
    "NaN": lambda data: data.replace(b'"base_version": 1', b'"base_version": NaN', 1),
    "infinity": lambda data: data.replace(b'"base_version": 1', b'"base_version": 1e999', 1),
    "a fraction": lambda data: data.replace(b'"base_version": 1', b'"base_version": 1.0', 1),
    "an exponent": lambda data: data.replace(b'"base_version": 1', b'"base_version": 1e0', 1),
    "a large number": lambda data: data.replace(
        b'"base_version": 1', b'"base_version": 1' + b"0" * 5000, 1
    ),
    "a number of 65 bits": lambda data: data.replace(
        b'"base_version": 1', b'"base_version": 18446744073709551617', 1
    ),
    "an unknown field": lambda data: data.replace(b'"form":', b'"fork": 1,\n "form":', 1),
    "an unknown field of a definition": lambda data: data.replace(
        b'"model": "db.total"', b'"mock": "x",\n   "model": "db.total"', 1
    ),
    "an unknown attachment": lambda data: data.replace(
        b'"attached": {', b'"attached": {\n  "approvals": [],', 1
    ),
    "an unknown field of a signature": lambda data: data.replace(
        b'"at": "', b'"approved": true,\n    "at": "', 1
    ),
}


def test_a_signed_file_in_another_spelling_is_refused(signed: Team) -> None:
    data, before = signed.file.read_bytes(), signed.shown()
    for how, respell in RESPELLINGS.items():
        changed = respell(data)
        assert changed != data, how
        signed.file.write_bytes(changed)
        with signed.open() as workspace, pytest.raises(UsageError) as raised:
            workspace.apply(workspace.plans.files.open(signed.file))
        assert raised.value.hint, how
    assert signed.shown() == before


def test_values_that_differ_only_in_their_spelling_are_refused_by_their_line(
    signed: Team, vde: Vde
) -> None:
    data = signed.file.read_bytes()
    signed.file.write_bytes(data.replace(b'"made_by": ', b'"made_by":  ', 1))
    line = data[: data.index(b'"made_by"')].count(b"\n") + 1
    assert f"is not in canonical form from line {line} on" in refused(signed, vde)


def test_a_file_with_any_byte_changed_added_or_removed_is_refused(signed: Team) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance, data = random.Random(seed), signed.file.read_bytes()
    attached = data.index(b'"attached"'), data.index(b'"definitions"')
    changed = signed.root / "changed.json"
    for _ in range(300):
        place = chance.randrange(len(data))
        while attached[0] <= place < attached[1]:  # That part is the next test's.
            place = chance.randrange(len(data))
        byte = bytes([chance.randrange(256)])
        ways = (data[:place] + byte + data[place + 1 :], data[:place] + byte + data[place:])
        made = chance.choice([*ways, data[:place] + data[place + 1 :]])
        if made == data:
            continue
        changed.write_bytes(made)
        with pytest.raises(UsageError):
            PlanFiles.read(changed)


def test_a_signature_in_another_spelling_of_base64_is_refused(signed: Team, vde: Vde) -> None:
    content = json.loads(signed.file.read_bytes())
    made = content["attached"]["signatures"][0]
    for field, padding in (("signature", "=="), ("key", "=")):
        for text in respelled(made[field], padding)[:2]:
            other = {**content, "attached": {"signatures": [{**made, field: text}]}}
            signed.file.write_bytes(file_bytes(other))
            assert "differs from what was signed" in refused(signed, vde)


def test_one_key_in_two_spellings_of_base64_is_one_persons(team: Team) -> None:
    key = team.key("anna")
    for text in respelled(key, "="):
        found = list(SignaturesSettings({"anna": key, "ben": text}, {"prod": 2}).mistakes())
        assert [said for _, said, _ in found] == ["has no public key of ben"]
    twice = SignaturesSettings({"anna": key, "ben": key}, {"prod": 2})
    assert [said for _, said, _ in twice.mistakes()] == ["has one key under two names"]


@pytest.mark.parametrize("other", ["blank", "no padding", "url", "33 bytes", "31 bytes"])
def test_a_key_in_any_other_form_is_refused(team: Team, other: str) -> None:
    raw = b64decode(team.key("anna").removeprefix("ed25519:"))
    text = {
        "blank": "ed25519: " + b64encode(raw).decode(),
        "no padding": "ed25519:" + b64encode(raw).decode().rstrip("="),
        "url": "ed25519:" + b64encode(b"\xff" * 32).decode().replace("/", "_"),
        "33 bytes": "ed25519:" + b64encode(raw + b"\0").decode(),
        "31 bytes": "ed25519:" + b64encode(raw[:31]).decode(),
    }[other]
    assert list(SignaturesSettings({"anna": text}).mistakes())


def test_two_signatures_by_one_key_are_refused(signed: Team, vde: Vde) -> None:
    content = json.loads(signed.file.read_bytes())
    made = content["attached"]["signatures"][0]
    signed.file.write_bytes(file_bytes({**content, "attached": {"signatures": [made, made]}}))
    assert "two of them are by the key" in refused(signed, vde)
    with pytest.raises(UsageError, match="and nothing else"):
        read_signatures([{**made, "name": "ben"}])


def test_signing_a_respelled_file_is_refused(signed: Team, vde: Vde) -> None:
    signed.file.write_bytes(signed.file.read_bytes() + b"\n")
    key, root = signed.root / "ben.pem", signed.production.root
    ended = vde("plan", "sign", signed.file, "--key", key, "--project", root)
    assert ended.code == 2
    assert "is not in canonical form" in ended.err


def test_a_written_file_is_read_as_it_was_written(signed: Team, tmp_path: Path) -> None:
    found = PlanFiles.read(signed.file)
    assert [one["key"] for one in found.attached["signatures"]]
    assert signed.file.read_bytes() == file_bytes({**found.document, "attached": found.attached})
