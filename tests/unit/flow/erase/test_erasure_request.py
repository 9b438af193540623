"""What `sluice erase` is asked for, word by word."""

from __future__ import annotations

import hashlib
import hmac

import pendulum
import pytest

from sluice.errors import WrongUse
from sluice.flow.erase.erasure_request import (
    ErasureRequest,
    Where,
    checked_reason,
    hidden_lines,
    masked_too,
    read_wheres,
)
from sluice.mask.mask_rules import mask_rules
from sluice.slices import SliceRange
from tests.support.erased import SALT, digest
from tests.support.landing_world import START, pipeline

NOW = pendulum.datetime(2026, 1, 1, 5, 30)


def test_fields_and_values():
    assert read_wheres(["user.id=7", "email=a=b", "user.id=7"]) == (
        Where(("user", "id"), "7"),
        Where(("email",), "a=b"),
    )


@pytest.mark.parametrize("text", ["user.id", "=7", "a..b=7", "a=", "a=\ud800", "a=" + "x" * 1025])
def test_what_is_no_field_and_value(text: str):
    with pytest.raises(WrongUse, match="--where"):
        read_wheres([text])


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "for alice@b.example"])
def test_a_reason_says_something_and_not_who(reason: str):
    with pytest.raises(WrongUse, match="--reason"):
        checked_reason(reason, read_wheres(["email=alice@b.example"]))


def test_the_entry_has_hashes_and_no_value():
    from sluice.state.erasures.erasure_list import ErasureList, encode

    slices = SliceRange(START, START.add(hours=6))
    open_end = ErasureRequest((Where(("id",), "alice@b.example"),), slices, "ticket", "me")
    typed = ErasureRequest((Where(("id",), "alice@b.example"),), slices, "ticket", "me", start=True, end=True)
    known = ErasureList(SALT)
    first, second = open_end.entry(known, NOW), typed.entry(known, NOW)
    assert (first.start, first.until, first.asked_until) == ("", "2026-01-01T06:00:00Z", "")
    assert (second.start, second.asked_until) == ("2026-01-01T00:00:00Z", "2026-01-01T06:00:00Z")
    assert [value.digest for value in first.values] == [digest("alice@b.example")]
    assert b"alice" not in encode(ErasureList(SALT, (first, second)))
    assert first.words != second.words


def test_what_a_mask_made_of_the_value_is_asked_for_too():
    spec = pipeline(mask={"email": {"hash": "a key of sixteen letters"}, "ip": "drop"})
    rules = mask_rules(spec)
    found = masked_too(read_wheres(["email=a@b.example", "ip=::1", "id=7"]), rules)
    seal = hmac.new(b"a key of sixteen letters", b"a@b.example", hashlib.sha256).hexdigest()
    assert any(where.path == ("email",) and where.value.endswith(seal) for where in found)
    assert [where.value for where in found if where.path != ("email",)] == ["::1", "7"]
    assert hidden_lines(found, rules) == [
        "the mask `drop` hides ip: what has landed with it is not found by this field"
    ]
