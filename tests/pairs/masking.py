"""Computes a masked record by docs/guide/privacy.md alone, with Python's own json and hmac."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from json.decoder import scanstring
from typing import Any

from tests.pairs.log import KIND, SHIPPED, Headers, Sent
from tests.pairs.options import Case

_KEY = "a key of the pairs, 32 letters.."
_HEAD = "hmac256:e138ffea:"  # of this key
_KEPT = {"_key": "keep", "_headers": "keep", "_rejected": "keep"}
RULES: dict[str, dict[str, Any]] = {
    "none": {},
    "fields": {"user": {"hash": _KEY}, "geo.city": "drop", **_KEPT},
    "records": {"user": {"hash": _KEY}},  # keys, headers and what is no event are hashed then, too
}
_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\n\r]*")


def masked(case: Case, sent: Sent) -> Sent:
    """The record as Sluice may keep it."""
    if case.mask == "none" or sent.message is None:
        return sent
    value = None if sent.message.value is None else _value(case, sent.message.value)
    events = tuple(_value(case, text.encode()).decode() for text in sent.message.events)
    message = replace(sent.message, value=value, events=events)
    if case.mask == "fields":
        return replace(sent, message=message)
    key = None if sent.key is None else token(sent.key).encode()
    return replace(sent, message=message, key=key, headers=tuple(_headers(case, sent.headers)))


def token(data: bytes) -> str:
    data = b"\0text" + data if data.startswith(b"\0") else data
    return _HEAD + hmac.new(_KEY.encode(), data, hashlib.sha256).hexdigest()


def _headers(case: Case, headers: Headers) -> Iterator[tuple[str, bytes | None]]:
    """Those that the pipeline reads stay."""
    read = {KIND} if case.type == "header" else set()
    read |= {SHIPPED} if case.batch != "off" else set()
    for name, value in headers:
        yield name, value if value is None or name in read else token(value).encode()


def _value(case: Case, value: bytes) -> bytes:
    """A message, an event, or an element of an array."""
    try:
        text = value.decode()
        found = json.loads(text, parse_constant=_refuse)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return _edited(case, text).encode()
    if isinstance(found, list) and found and all(isinstance(one, dict) for one in found):
        for start, end in reversed(list(_elements(text))):
            text = text[:start] + _edited(case, text[start:end]) + text[end:]
        return text.encode()
    return value if case.mask == "fields" else f'"{token(value)}"'.encode()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _edited(case: Case, text: str, path: tuple[str, ...] = ()) -> str:
    """An object with its fields masked, and each other byte as it was."""
    for name, start, value, end in reversed(list(_members(text))):
        here, own = (*path, name), text[value:end]
        if here == ("user",) and own != "null":
            assert own[0] == '"', "no user of the events is anything else"
            text = f'{text[:value]}"{token(json.loads(own).encode())}"{text[end:]}'
        elif here == ("geo",) and own[0] == "{":
            text = text[:value] + _edited(case, own, here) + text[end:]
        elif here == ("geo", "city") and case.mask == "fields":
            text = (
                text[:start] + text[end + 1 :] if text[end] == "," else text[:start].rstrip(",") + text[end:]
            )
    return text


def _members(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Name, and where the member and its value begin and end, of each member of an object."""
    at = _behind(text, text.index("{") + 1)
    while text[at] != "}":
        name, after = scanstring(text, at + 1)
        value = _behind(text, text.index(":", after) + 1)
        end = _DECODER.raw_decode(text, value)[1]
        yield name, at, value, end
        at = _behind(text, end)
        at = _behind(text, at + 1) if text[at] == "," else at


def _elements(text: str) -> Iterator[tuple[int, int]]:
    at = _behind(text, text.index("[") + 1)
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        yield at, end
        at = _behind(text, end)
        at = _behind(text, at + 1) if text[at] == "," else at


def _behind(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()
