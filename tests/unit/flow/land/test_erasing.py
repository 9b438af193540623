"""Which bytes have a value of the erasure list: what `sluice find` finds, and more where it is no JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sluice.field_path import field, read_event, text_of
from sluice.flow.find.search_files import read_match
from sluice.flow.land.task.erasing import ErasedValues
from sluice.runtime import deeper
from sluice.state.erasures import Erasure, ErasureList

LONG = "7f3c-user-0042"


def asked(*wheres: str, kind: str = "") -> ErasedValues:
    bare = ErasureList("ab" * 32)
    values = []
    for where in wheres:
        path, _, value = where.partition("=")
        values.append(bare.asked(tuple(path.split(".")), value.encode()))
    entry = Erasure(tuple(values), kind, "", "9999", "", "asked", "", "")
    return ErasedValues(bare, [entry])


def has(values: ErasedValues, text: bytes | None, type_of: Any = lambda _: None) -> bool:
    with deeper():
        return values.has(None, text, type_of)


def has_key(values: ErasedValues, key: bytes | None, text: bytes | None, type_of: Any) -> bool:
    with deeper():
        return values.has(key, text, type_of)


EVENTS = [
    (b'{"user":{"id":7}}', "user.id=7", True),
    (b'{"user":{"id":"7"}}', "user.id=7", True),
    (b'{"user": {"x":1, "id" : \n7 }}', "user.id=7", True),
    (b'{"user":{"id":7.0}}', "user.id=7", False),
    (b'{"user":{"id":7.0}}', "user.id=7.0", True),
    (b'{"user":{"id":77}}', "user.id=7", False),
    (b'{"id":7}', "user.id=7", False),
    (b'{"device":{"id":7},"user":{"id":8}}', "user.id=7", False),
    (b'{"device":{"id":7},"user":{"id":8}}', "user.id=8", True),
    (b'{"user":{"id":[7]}}', "user.id=7", True),
    (b'{"user":{"id": [ 8, ["7"]]}}', "user.id=7", True),
    (b'{"user":{"id":[8]}}', "user.id=7", False),
    (b'{"user":[{"id":8},{"id":7}]}', "user.id=7", True),
    (b'{"user.id":7}', "user.id=7", True),
    (b'{"user\\u002eid":7}', "user.id=7", True),
    (b'{"user.id":8,"user":{"id":7}}', "user.id=7", True),
    (b'{"user":{"name.first":"Ann"}}', "user.name.first=Ann", True),
    (b'{"user.name":{"first":"Ann"}}', "user.name.first=Ann", True),
    (b'{"user":{"id":true}}', "user.id=true", True),
    (b'{"user":{"id":null}}', "user.id=null", False),
    (b'{"us\\u0065r":{"\\u0069d":"7"}}', "user.id=7", True),
    (b'{"user":{"id":"\\u0037"}}', "user.id=7", True),
    (b'{"user":{"id":"a\\"b"}}', 'user.id=a"b', True),
    ('{"user":{"id":"Jürgen Groß"}}'.encode(), "user.id=Jürgen Groß", True),
    (b'{"user":{"id":"J\\u00fcrgen Gro\\u00df"}}', "user.id=Jürgen Groß", True),
    (b'{"a":"x\\\\","user":{"id":"7"}}', "user.id=7", True),
    (b'{"text":"\\"id\\":7","user":{"id":8}}', "user.id=7", False),
    (b'{"other":"7f3c-user-0042","user":{"id":8}}', f"user.id={LONG}", False),
    (b'{"user":{"id":' + b"9" * 900 + b"}}", "user.id=" + "9" * 900, True),
]


@pytest.mark.parametrize(("text", "where", "found"), EVENTS)
def test_an_event_is_erased_where_it_is_found(text: bytes, where: str, found: bool):
    assert has(asked(where), text) is found
    rows = pa.table({"_payload": [text]})
    with deeper():
        assert (len(read_match(None, where).positions(rows)) == 1) is found
    read_event(text)  # it is an event


NO_EVENTS = [
    (b'{"user":{"id":7},"user":{"id":8}}', "user.id=7", True),  # there twice
    (b'{"user":{"id":7},"user":{"id":8}}', "user.id=8", True),
    (b'{"user":{"id":7},"user":{"id":8}}', "user.id=9", False),
    (b'{"user":{"id":7', "user.id=7", True),  # cut off
    (b'{"user":{"id":"7"', "user.id=7", True),
    (b'{"n":7, "user":{"id":8', "user.id=7", False),  # a short value, elsewhere
    (b'[{"user":{"id":7}}]', "user.id=7", True),
    (b'{"user":{"id":7},"s":"\xff"}', "user.id=7", True),
    (b"user=7f3c-user-0042;x=1", f"user.id={LONG}", True),
    (b"2026 7f3c-user-0042 GET /", f"user.id={LONG}", True),
    (b"17f3c-user-0042 GET /", f"user.id={LONG}", False),  # a longer word
    (b"who John Smith of Ulm, paid", "user.name=John Smith of Ulm", True),
    (b"who John Smith of Ulmenau", "user.name=John Smith of Ulm", False),
    (b"\x02017f3c-user-0042z\x00\x01", f"user.id={LONG}", True),  # bytes with lengths between texts
    (b"GET /?u=J%C3%BCrgen%20Gro%C3%9F&x=1", "user.name=J\u00fcrgen Gro\u00df", True),
    (b"log: J\\u00fcrgen Gro\\u00df left", "user.name=J\u00fcrgen Gro\u00df", True),
    (b"n=1234567", "user.id=1234567", False),  # too short for anywhere
    (b'{"user":"John Smith of Ul', "user.name=John Smith of Ulm", False),  # the value itself is cut off
    (b'{"user":"John Smith of Ulm",', "user.name=John Smith of Ulm", True),
    (b'{"user":{"id":' + b"[" * 2000 + b'"7f3c-user-0042"', f"user.id={LONG}", True),
    (b'{"user":{"id":"7f3c-user-0042"},"deep":' + b"[" * 9000 + b"]" * 9000 + b"}", f"user.id={LONG}", True),
    (b"7", "user.id=7", False),
    (b'"7f3c-user-0042"', f"user.id={LONG}", True),
    (b"\x00\x01\x02", "user.id=7", False),
    (b"", "user.id=7", False),
    (None, "user.id=7", False),
]


@pytest.mark.parametrize(("text", "where", "found"), NO_EVENTS)
def test_other_bytes_are_searched_for_the_value(text: bytes | None, where: str, found: bool):
    assert has(asked(where), text) is found


def test_types_are_compared_where_they_are_known():
    text = b'{"type":"click","user":{"id":7}}'
    own, other = asked("user.id=7", kind="click"), asked("user.id=7", kind="bid")
    by_field = lambda event: event.get("type")  # noqa: E731
    assert (has(own, text, by_field), has(other, text, by_field)) == (True, False)
    assert has(other, text.replace(b"type", b"kind"), by_field)  # of no type that can be read
    assert has(other, text[:-1], by_field)


@pytest.mark.parametrize(
    ("key", "text", "own", "other"),
    [
        (b"k9", b'{"type":"click"}', True, False),
        (b"k8", b'{"type":"click"}', False, False),
        (b"k9", b'{"kind":"click"}', True, True),  # of no type that can be read
        (b"k9", b'{"type":"click","type":"bid"}', True, True),
        (b"k9", b'{"type":"click"', True, True),
        (b"k9", None, True, True),
    ],
)
def test_the_keys_of_records_are_of_their_types(key: bytes, text: bytes | None, own: bool, other: bool):
    """As an event is read: its type counts, and bytes that are no event, or of no type, are of any."""

    def by_field(event: dict[str, Any]) -> str | None:
        return text_of(field(event, ["type"]))

    both = [asked("_key=k9", kind=kind) for kind in ("click", "bid")]
    assert [has_key(one, key, text, by_field) for one in both] == [own, other]
    assert has_key(asked("_key=k9"), key, text, by_field) is own


def test_a_record_without_a_value_is_erased_by_its_key():
    """A tombstone has nothing else that may be the person's; it is rejected, so that no type counts."""
    for wheres in (["user.id=k9"], ["email=a", "user.id=k9"]):
        values = asked(*wheres, kind="click")
        assert [has_key(values, key, None, lambda _: "bid") for key in (b"k9", b"k8", None)] == [
            True,
            False,
            False,
        ]
        assert not has_key(values, b"k9", b'{"type":"click"}', lambda _: "click")
        assert not has_key(values, b"k9", b"", lambda _: None)


def test_several_values_and_paths():
    several = asked("user.id=7", "user.id=8", "email=a@b.example", "_key=k9")
    assert [n for n in range(20) if has(several, b'{"user":{"id":%d}}' % n)] == [7, 8]
    assert has(several, b'{"email":"a@b.example"}')
    assert not has(several, b'{"id":"a@b.example"}')
    assert [has_key(several, key, b"{}", lambda _: None) for key in (b"k9", b"k8", None)] == [
        True,
        False,
        False,
    ]
    assert not has(several, b'{"_key":"k9"}')


@pytest.mark.parametrize("seed", range(3))
def test_random_events_agree_with_json(seed: int):
    """An oracle of Python's own json, which is asked nothing else."""
    chance = np.random.default_rng(seed)
    names, wanted = ["id", "user", "user.id", "x", 'a"b', "ü"], {"1", "2.5", "true", "aü", 'q"'}
    several = asked(*(f"user.id={value}" for value in sorted(wanted)))
    choices: list[Any] = [1, 2.5, True, None, "aü", 'q"', "1", 11, "no", [1], {"id": 1}]

    def some(depth: int) -> Any:
        if depth == 0 or chance.random() < 0.4:
            return choices[chance.integers(len(choices))]
        picked = chance.choice(names, chance.integers(1, 4), replace=False).tolist()
        return {name: some(depth - 1) for name in picked}

    for _ in range(2_000):
        event = some(3)
        if not isinstance(event, dict):
            continue
        user = event.get("user")
        values = [event.get("user.id"), user.get("id") if isinstance(user, dict) else None]
        values = [value[0] if isinstance(value, list) else value for value in values]
        words = {
            json.dumps(value) if isinstance(value, int | float) else value
            for value in values
            if not isinstance(value, dict)
        }
        text = json.dumps(event, ensure_ascii=bool(chance.integers(2))).encode()
        assert has(several, text) is bool(words & wanted), text
