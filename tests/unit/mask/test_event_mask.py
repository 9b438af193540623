"""Masked JSON says what it should to Python's own json, and all other bytes are as they were."""

from __future__ import annotations

import hashlib
import hmac
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.mask.mask_rules import MaskKey
from sluice.mask.unit_mask import DROP, EventMask, FirstKept, Hashed, edited
from sluice.runtime import deeper

KEY = b"0123456789abcdef"
NAMES = ("email", "ip", "user", "name", "é", 'q"', "x/y")
RULES: dict[tuple[str, ...], Any] = {
    ("email",): Hashed(MaskKey(KEY)),
    ("ip",): DROP,
    ("user", "name"): FirstKept(1),
    ("user", "é"): DROP,
    ("x/y", "email"): Hashed(MaskKey(KEY)),
}


def hashed(message: bytes) -> str:
    """RFC 2104, written out."""
    pad = KEY.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in pad) + message).digest()
    return hashlib.sha256(bytes(b ^ 0x5C for b in pad) + inner).hexdigest()


def token(message: bytes) -> str:
    return f"hmac256:{hashed(bytes(1) + b'id')[:8]}:{hashed(message)}"


class Members(list):
    """An object's members, all of them."""


class Span(str):
    """A number as it is written."""


def read(text: bytes) -> Any:
    with deeper():
        return json.loads(text, object_pairs_hook=Members, parse_int=Span, parse_float=Span)


def wanted(value: Any, path: tuple[str, ...], rules: dict[tuple[str, ...], Any]) -> Any:
    """The oracle: the same by structures, slowly, and without the text."""
    if isinstance(value, Members):
        found = Members()
        for name, inner in value:
            own = (*path, name)
            if own in rules and rules[own] is DROP:
                continue
            found.append((name, masked(inner, rules[own]) if own in rules else wanted(inner, own, rules)))
        return found
    return [wanted(one, path, rules) for one in value] if isinstance(value, list) else value


def masked(value: Any, rule: Any) -> Any:
    if isinstance(value, list) and not isinstance(value, Members):
        return [masked(one, rule) for one in value]
    if value is None:
        return None
    plain = isinstance(value, str) and not isinstance(value, Span)
    if isinstance(rule, FirstKept):
        kept = value[:1] if plain else ""
        return value if plain and value.endswith("***") and len(value) <= 4 else kept + "***"
    if plain:
        data = value.encode()
        return token(data if data[:1] != bytes(1) else bytes(1) + b"text" + data)
    return ANY_TOKEN


class _AnyToken:
    """Of an object or a number: its text decides, which the oracle does not have."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.startswith(token(b"")[:17])

    __hash__ = None  # type: ignore[assignment]


ANY_TOKEN = _AnyToken()

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
names = st.sampled_from(NAMES) | texts


def spelled(text: str, escapes: list[bool]) -> str:
    """A string of JSON, some of its characters escaped."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    parts = []
    for number, char in enumerate(text):
        units = char.encode("utf-16-be").hex()
        long = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
        parts.append(long if escapes[number % len(escapes)] else json.dumps(char, ensure_ascii=False)[1:-1])
    return f'"{"".join(parts)}"' if any(escapes) else f'"{plain}"'


@st.composite
def documents(draw: st.DrawFn, depth: int = 3) -> str:
    kinds = ["scalar", "object", "list"] if depth else ["scalar"]
    space = draw(st.sampled_from(["", " ", "\n\t", "\r "]))
    kind = draw(st.sampled_from(kinds))
    if kind == "object":
        return draw(objects(depth))
    if kind == "list":
        inner = draw(st.lists(documents(depth - 1), max_size=3))
        return f"[{space}{f'{space},'.join(inner)}{space}]"
    value = draw(scalars)
    if isinstance(value, str):
        return spelled(value, draw(st.lists(st.booleans(), min_size=1, max_size=3)))
    return draw(st.sampled_from([json.dumps(value), "1e400", "-0.0", "123456789012345678901234567890"]))


@st.composite
def objects(draw: st.DrawFn, depth: int = 3) -> str:
    space = draw(st.sampled_from(["", " ", "\n\t", "\r "]))
    members = []
    for _ in range(draw(st.integers(0, 4))):
        name = spelled(draw(names), draw(st.lists(st.booleans(), min_size=1, max_size=3)))
        members.append(f"{name}{space}:{space}{draw(documents(depth - 1 if depth else 0))}")
    return f"{{{space}{f'{space},{space}'.join(members)}{space}}}"


@given(objects())
@settings(max_examples=400, deadline=None)
def test_it_says_what_it_should_and_is_the_same_quickly_and_slowly(text: str):
    source, mask = text.encode(), EventMask(RULES)
    found = mask.masked(source)
    assert found == mask.masked_slowly(source)
    assert read(found) == wanted(read(source), (), RULES)


@given(objects())
@settings(max_examples=200, deadline=None)
def test_masking_again_changes_nothing(text: str):
    trusting = {
        path: Hashed(MaskKey(KEY), frozenset({MaskKey(KEY).id})) if isinstance(rule, Hashed) else rule
        for path, rule in RULES.items()
    }
    once = EventMask(RULES).masked(text.encode())
    assert EventMask(trusting).masked(once) == once


@given(objects(), objects())
@settings(max_examples=200, deadline=None)
def test_an_array_of_objects_is_masked_one_by_one(one: str, other: str):
    mask = EventMask(RULES)
    both = mask.masked_slowly(f"[ {one}\t,{other} ]".encode())
    assert both == b"[ " + mask.masked(one.encode()) + b"\t," + mask.masked(other.encode()) + b" ]"


BYTES = [
    # All but what is masked is as it was, spaces, spellings and numbers too.
    ('{"a" : 1.50 ,"email"\t: "x","b":1E+2}', '{"a" : 1.50 ,"email"\t: "TOKEN:x","b":1E+2}'),
    ('{"email":null,"a":"\\u0061\\/"}', '{"email":null,"a":"\\u0061\\/"}'),
    ('{"em\\u0061il":"x"}', '{"em\\u0061il":"TOKEN:x"}'),
    ('{"EMAIL":"x","e-mail":"x"}', '{"EMAIL":"x","e-mail":"x"}'),
    ('{"email":"\\u0078"}', '{"email":"TOKEN:x"}'),
    ('{"email":"x","email":"x"}', '{"email":"TOKEN:x","email":"TOKEN:x"}'),
    ('{"email":["x",["x",null],[]]}', '{"email":["TOKEN:x",["TOKEN:x",null],[]]}'),
    ('{"s":"say \\"email\\": \\"x\\"","email":"x"}', '{"s":"say \\"email\\": \\"x\\"","email":"TOKEN:x"}'),
    ('{"s":"email","t":{"email":"x"}}', '{"s":"email","t":{"email":"x"}}'),
    # Left out, with one comma.
    ('{"ip":1}', "{}"),
    ('{ "ip" : 1 , "a":2}', '{ "a":2}'),
    ('{"a":2 , "ip":[{"ip":1}] }', '{"a":2 }'),
    ('{"ip":1,"ip":2,"a":3,"ip":4}', '{"a":3}'),
    ('{"a":1,"ip":{"b":","},"b":2}', '{"a":1,"b":2}'),
    # A path through arrays, and one that is not there.
    ('{"user":[{"name":"Ann"},[{"name":"Bo"}],7]}', '{"user":[{"name":"A***"},[{"name":"B***"}],7]}'),
    ('{"user":"Ann","name":"Ann"}', '{"user":"Ann","name":"Ann"}'),
    ('{"user":{"name":"A"},"user":{"x":1}}', '{"user":{"name":"A***"},"user":{"x":1}}'),
    ('{"user":{"name":12.5}}', '{"user":{"name":"***"}}'),
    ('{"user":{"name":"\\ud83d\\ude00x"}}', '{"user":{"name":"😀***"}}'),
    ('{"user":{"name":"\\ud83d"}}', '{"user":{"name":"***"}}'),
    ('{"user":{"name":"A***"}}', '{"user":{"name":"A***"}}'),
    ('{"user":{"name":"AB***"}}', '{"user":{"name":"A***"}}'),
    ('{"user":{"name":""}}', '{"user":{"name":"***"}}'),
]


@pytest.mark.parametrize(("given_text", "expected"), BYTES)
def test_bytes(given_text: str, expected: str):
    found = EventMask(RULES).masked(given_text.encode())
    assert found == expected.replace("TOKEN:x", token(b"x")).encode()
    assert EventMask(RULES).masked_slowly(given_text.encode()) == found


def test_a_number_and_its_text_have_two_hashes_and_one_spelling_each():
    found = json.loads(edited(b'{"a":["1",1,1.0,true,"true",{"b":1}]}', {"a": Hashed(MaskKey(KEY))}))["a"]
    assert len(set(found)) == 6
    assert found[0] == token(b"1")
    assert found[1] == token(bytes(1) + b"json1")


def test_a_hash_that_a_producer_sends_is_hashed():
    """Only in files where the field was masked before is such a text known to be ours."""
    forged = json.dumps({"email": token(b"somebody")})
    key = MaskKey(KEY)
    found = json.loads(edited(forged.encode(), {"email": Hashed(key)}))["email"]
    assert found == token(token(b"somebody").encode())
    assert edited(forged.encode(), {"email": Hashed(key, frozenset({key.id}))}) == forged.encode()
    assert edited(forged.encode(), {"email": Hashed(key, frozenset({"00000000"}))}) != forged.encode()


def test_the_deepest_event_and_the_longest_text():
    with deeper():
        deep = b'{"email":' + b"[" * 890 + b'"x"' + b"]" * 890 + b"}"
        assert EventMask(RULES).masked(deep) == deep.replace(b"x", token(b"x").encode())
    long = b'{"email":"' + b"\\n" * (1 << 20) + b'","a":1}'
    assert EventMask(RULES).masked(long) == b'{"email":"' + token(b"\n" * (1 << 20)).encode() + b'","a":1}'


@pytest.mark.parametrize("secret", [b"k" * 16, b"k" * 64, b"k" * 65, b"k" * 500])
def test_it_is_hmac(secret: bytes):
    for data in (b"", b"alice", b"x" * 200):
        assert MaskKey(secret).token(data)[17:].decode() == hmac.new(secret, data, "sha256").hexdigest()


def test_a_key_is_not_shown_and_travels():
    key = MaskKey(KEY)
    assert key.id == token(b"")[8:16]
    assert "0123456789" not in repr(key)
    assert pickle.loads(pickle.dumps(key)).token(b"x") == key.token(b"x")


@given(objects(), objects(), documents(), st.sampled_from(["", " ", "\n"]))
@settings(max_examples=200, deadline=None)
def test_bytes_around_a_masked_value_stay(one: str, other: str, value: str, space: str):
    """Whatever they are: here objects in which no name is masked, because they lie deeper."""
    text = f'{{{space}"a":{one}{space},"email" :{space}{value} ,{space}"b":{other}}}'.encode()
    found = EventMask({("email",): FirstKept(1)}).masked(text)
    before, after = f'{{{space}"a":{one}{space},"email" :{space}', f' ,{space}"b":{other}}}'
    assert found.startswith(before.encode())
    assert found.endswith(after.encode())
    assert read(found)[1][0] == "email"
