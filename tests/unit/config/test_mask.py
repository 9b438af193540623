"""`mask:` in a pipeline file: what it means, and what is refused, never with a key in the message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.config.explain import explain
from sluice.config.files import read
from sluice.config.mask import connections_of, hides, with_defaults
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongPipeline
from sluice.mask.mask_rules import mask_rules, said_by

KEY = "0123456789abcdef"
BASE = {
    "kafka": [{"cluster": "dc1", "bootstrap": "kafka:9092", "topics": ["events"]}],
    "event": {"type": {"field": "meta.kind"}, "time": {"field": "at"}},
    "lake": "s3://events/landing",
}


def load(mask: Any, folder: Path, environment: dict[str, str] | None = None, **more: Any) -> Pipeline:
    path = folder / "adx.yaml"
    path.write_text(yaml.safe_dump({**BASE, "mask": mask, **more}))
    return read(path, environment or {})


def test_rules_and_their_short_forms(tmp_path: Path):
    mask = {
        "email": {"hash": "${SLUICE_VAR_KEY}"},
        "ip": "drop",
        "user.name": "keep_first",
        "iban": {"keep_first": 4, "types": ["pay", "refund"]},
        "_key": "keep",
    }
    found = load(mask, tmp_path, {"SLUICE_VAR_KEY": KEY})
    assert said_by(found) == {
        "_headers": "hash",
        "_key": "keep",
        "_rejected": "hash",
        "email": "hash",
        "iban": "keep_first 4 of pay, refund",
        "ip": "drop",
        "user.name": "keep_first 1",
    }
    assert KEY not in repr(found)
    assert KEY not in found.model_dump_json()


def test_without_a_mask_nothing_is_masked(tmp_path: Path):
    found = load({}, tmp_path)
    assert mask_rules(found) is None
    assert with_defaults(found.mask) == {}


def test_without_a_key_the_rest_is_dropped(tmp_path: Path):
    found = said_by(load({"ip": "drop"}, tmp_path))
    assert found == dict.fromkeys(("_headers", "_key", "_rejected", "ip"), "drop")


def test_keys_of_connections(tmp_path: Path):
    found = load({"a": {"hash": [{"connection": "new"}, KEY, {"connection": "old"}]}, "b": "drop"}, tmp_path)
    assert connections_of(found.mask) == ["new", "old"]


@pytest.mark.parametrize(
    ("mask", "key", "expected"),
    [
        ({"a": "hash"}, "mask.a", "expected {hash: KEY}, drop, keep_first, keep, or one of these"),
        ({"a": {"hash": "secret"}}, "mask.a.hash", "expected a key of at least 16 characters"),
        ({"a": {"hash": []}}, "mask.a.hash", "expected a key of at least 16 characters"),
        ({"a": {"hash": [KEY, 7]}}, "mask.a.hash", "expected a key of at least 16 characters"),
        ({"a": {"hash": {"conn": "x"}}}, "mask.a.hash", "expected a key of at least 16 characters"),
        (
            {"a": {"hash": KEY, "drop": True}},
            "mask.a",
            "expected exactly one of hash, drop, keep_first, keep",
        ),
        ({"a": {"types": ["x"]}}, "mask.a", "expected exactly one of"),
        ({"a": {"keep_first": 0}}, "mask.a.keep_first", "expected at least 1"),
        ({"a": {"keep_first": True}}, "mask.a.keep_first", "expected a number"),
        ({"a": {"dropp": True}}, "mask.a.dropp", "did you mean `drop`"),
        ({"a": "keep"}, "mask.a", "`keep` is for _key, _headers, _rejected: leave the field out"),
        ({"a..b": "drop"}, "mask.a..b", "expected a field or a dotted path"),
        ({"": "drop"}, "mask.", "expected a field or a dotted path"),
        ({"at": "drop"}, "mask.at", "at is the event's time, which stands in folders and files"),
        ({"meta": "drop"}, "mask.meta", "meta.kind is the event's type"),
        ({"meta.kind.x": "drop"}, "mask.meta.kind.x", "meta.kind is the event's type"),
        ({"a.b": "drop", "a": "drop"}, "mask.a.b", "a is masked as a whole: name the one or the other"),
        ({"_key": "keep_first"}, "mask._key", "expected {hash: KEY}, drop or keep, of all types"),
        ({"_rejected": {"drop": True, "types": ["x"]}}, "mask._rejected", "of all types"),
    ],
)
def test_what_is_refused(mask: Any, key: str, expected: str, tmp_path: Path):
    with pytest.raises(WrongPipeline) as raised:
        load(mask, tmp_path)
    assert (raised.value.key, raised.value.expected[: len(expected)]) == (key, expected) or (
        raised.value.key == key and expected in raised.value.expected
    )
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("form", [{"avro": "a.avsc"}, {"protobuf": {"file": "a.proto", "message": "A"}}])
def test_other_formats_are_refused(form: Any, tmp_path: Path):
    for name in ("a.avsc", "a.proto"):
        (tmp_path / name).write_text("{}")
    event = {**BASE["event"], "format": form}
    with pytest.raises(WrongPipeline, match=r"mask: is for messages in JSON: .* own bytes \(_raw\)"):
        load({"a": "drop"}, tmp_path, event=event)


def test_a_variable_that_is_missing(tmp_path: Path):
    with pytest.raises(WrongPipeline, match=r"mask\.a\.hash: the environment has no SLUICE_VAR_MASK_KEY"):
        load({"a": {"hash": "${SLUICE_VAR_MASK_KEY}"}}, tmp_path)


def test_a_key_is_not_explained(tmp_path: Path):
    environment = {"SLUICE_VAR_PEPPER": KEY}
    load({"a": {"hash": ["${SLUICE_VAR_PEPPER}", {"connection": "old"}]}}, tmp_path, environment)
    found = [one for one in explain(tmp_path / "adx.yaml", environment) if one.key.startswith("mask")]
    assert not any(KEY in one.value for one in found)
    assert [one.value for one in found if one.key == "mask.a.hash"] == [
        "['${SLUICE_VAR_PEPPER}', {connection: old}]"
    ]


@pytest.mark.parametrize(
    ("kind", "path", "hidden"),
    [
        ("click", ("ip",), True),
        ("click", ("ip", "v4"), True),
        ("click", ("email",), False),  # its hash is there
        ("click", ("email", "x"), True),
        ("click", ("user", "name"), False),
        ("click", ("user",), False),
        ("click", ("phone",), False),
        ("signup", ("phone",), True),
        ("click", ("_key",), False),
    ],
)
def test_which_fields_an_event_lacks(kind: str, path: tuple[str, ...], hidden: bool, tmp_path: Path):
    mask = {
        "email": {"hash": KEY},
        "ip": "drop",
        "user.name": "keep_first",
        "phone": {"drop": True, "types": ["signup"]},
    }
    assert hides(load(mask, tmp_path).mask, kind, path) is hidden
