"""`event.change` in the pipeline file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.explain import explain
from sluice.errors import WrongPipeline
from tests.unit.config.test_message_format import REGISTRY, event

FORMS = "expected debezium, compacted or {compacted: FIELD}, and in FIELD no dot"
BY_FIELD = {"type": {"field": "kind"}}


@pytest.mark.parametrize(
    ("form", "kind", "key"),
    [
        ("debezium", "debezium", None),
        ("compacted", "compacted", None),
        ({"compacted": "user_id"}, "compacted", "user_id"),
    ],
)
def test_a_form_of_change(tmp_path: Path, form, kind, key):
    found = event(tmp_path, change=form)
    assert (found.change.kind, found.change.key, found.unwraps) == (kind, key, True)
    assert "event.change" in {setting.key for setting in explain(tmp_path / "p.yaml", {})}


def test_without_one_a_message_is_an_event(tmp_path):
    assert event(tmp_path).change is None


def test_of_a_decoded_message_the_lake_has_the_bytes(tmp_path):
    assert not event(tmp_path, change="debezium", format="avro", **REGISTRY).unwraps


@pytest.mark.parametrize(
    ("more", "key", "expected"),
    [
        ({"change": "maxwell"}, "event.change", FORMS),
        ({"change": {"debezium": "id"}}, "event.change", FORMS),
        ({"change": {"compacted": "a.b"}}, "event.change", FORMS),
        ({"change": {"compacted": ""}}, "event.change", FORMS),
        ({"change": ["compacted"]}, "event.change", FORMS),
        ({"change": "debezium", "rows": "array"}, "event", "`change` and `rows` do not go together"),
        ({"change": "compacted", **BY_FIELD}, "event", "a deleted row has its key alone"),
        ({"change": "compacted", "time": {"field": "at"}}, "event", "a deleted row has its key alone"),
        (
            {"change": "compacted", "format": "avro", **REGISTRY},
            "event",
            "is for messages in JSON, not in avro",
        ),
    ],
)
def test_a_mistake_is_told_with_its_key(tmp_path, more, key, expected):
    with pytest.raises(WrongPipeline) as caught:
        event(tmp_path, **more)
    assert caught.value.key == key
    assert expected in str(caught.value)
