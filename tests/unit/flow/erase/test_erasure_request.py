"""What `sluice erase` is asked for, word by word."""

from __future__ import annotations

import hashlib
import hmac

import pendulum
import pytest

from sluice.errors import WrongUse
from sluice.flow.erase.search import (
    ErasureRequest,
    Where,
    checked_reason,
    hidden_lines,
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


FILE = b"\xef\xbb\xbf  user.id=7 \r\n\n  \nemail=a = b\t\nuser.name=Ren\xc3\xa9"


def test_lines_of_a_file_and_what_is_typed_add_up():
    own = (Where(("user", "id"), "7"), Where(("email",), "a = b"), Where(("user", "name"), "René"))
    assert read_wheres([], FILE) == own
    assert read_wheres(["_key=u7", "user.id=7"], FILE) == (Where(("_key",), "u7"), *own)


NO_WHERES = ["alice", "=alice", "a..b=alice", "alice=", "a=alice\ud800", "a=alice" + "x" * 1020]


@pytest.mark.parametrize("text", NO_WHERES)
def test_what_is_no_field_and_value(text: str):
    line = text.encode(errors="surrogatepass")
    for place, given, file in (
        ("--where", [text], None),
        ("--where number 2", ["a=7", text], b"a=8"),
        ("--where-file, line 4", [], b"a=7\n\na=8\n" + line + b"\nb=9"),
    ):
        with pytest.raises(WrongUse) as refused:
            read_wheres(given, file)
        assert str(refused.value).startswith(f"{place}: ")
        assert "alice" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["_headers", "_payload", "_offset", "_partition", "_topic", "_timestamp", "_type", "_slice"]
)
def test_what_is_beside_the_fields_and_never_searched(name: str):
    with pytest.raises(WrongUse) as refused:
        read_wheres([f"{name}=alice"])
    assert str(refused.value) == (
        f"--where: {name} is not searched: name a field of the event, such as user.id, or _key, the "
        "record's key"
    )
    assert read_wheres([f"a.{name}=x", "_id=7"]) == (Where(("a", name), "x"), Where(("_id",), "7"))


def test_a_file_that_is_not_utf_8():
    with pytest.raises(WrongUse, match=r"--where-file, line 2: .* not UTF-8"):
        read_wheres([], "a=7\nname=René".encode("latin-1"))


@pytest.mark.parametrize(
    ("given", "file", "said"),
    [
        ([], None, "--where is missing or empty"),
        ([], b"\n \n", "--where-file is missing or empty"),
        (["a=7"], b"".join(b"a=%d\n" % n for n in range(100)), "--where: 101 values, more than 100"),
    ],
)
def test_nothing_and_too_much(given: list[str], file: bytes | None, said: str):
    with pytest.raises(WrongUse) as refused:
        read_wheres(given, file)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "for alice@b.example"])
def test_a_reason_says_something_and_not_who(reason: str):
    with pytest.raises(WrongUse, match="--reason"):
        checked_reason(reason, read_wheres(["email=alice@b.example"]))


def test_the_entry_has_hashes_and_no_value():
    from sluice.state.erasures import ErasureList, encode

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
    typed = read_wheres(["email=a@b.example", "ip=::1", "id=7"])
    found = ErasureRequest(typed, SliceRange(START, NOW), "ticket", "me", rules=rules).wheres
    seal = hmac.new(b"a key of sixteen letters", b"a@b.example", hashlib.sha256).hexdigest()
    assert any(where.path == ("email",) and where.value.endswith(seal) for where in found)
    others = [where for where in found if where.path != ("email",)]
    assert [where.value for where in others if not where.value.startswith("hmac256:")] == ["::1", "7"]
    # A tombstone's key is a value of any field, and is hashed with the keys of the first hashed one.
    seal = hmac.new(b"a key of sixteen letters", b"7", hashlib.sha256).hexdigest()
    assert any(where.path == ("id",) and where.value.endswith(seal) for where in others)
    assert hidden_lines(typed, rules) == [
        "the mask `drop` hides ip: what has landed with it is not found by this field"
    ]
