"""`counts:` in the pipeline file: what it means, and what is refused."""

from __future__ import annotations

import pytest

from tests.support.landing_world import pipeline

SPEC = {"table": "db.traffic", "by": ["country", "device.os"]}


def test_a_list_of_fields_names_their_columns():
    (short,) = pipeline(counts=[SPEC]).counts
    assert dict(short.by) == {"country": "country", "device_os": "device.os"}
    (own,) = pipeline(counts=[{**SPEC, "by": {"os": "device.os"}}]).counts
    assert dict(own.by) == {"os": "device.os"}
    assert [t.table for t in pipeline(counts=[SPEC]).targets] == ["db.click", "db.traffic"]


@pytest.mark.parametrize("name", ["expected", "seen", "difference"])
def test_a_column_of_the_view_of_what_is_expected_is_no_field(name):
    with pytest.raises(
        ValueError, match=rf"'{name}' cannot be counted by, .*: write {{OTHER_COLUMN: {name}}}"
    ):
        pipeline(counts=[{**SPEC, "by": [name]}])
    (renamed,) = pipeline(counts=[SPEC | {"by": {"of_field": name}}]).counts
    assert dict(renamed.by) == {"of_field": name}


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": ["count"]},
        {"by": ["a.b", "a_b"]},
        {"by": ["device", "device.os"]},
        {"by": ["a..b"]},
        {"table": "traffic"},
        {"by": {"_slice": "a"}},
        {"each": 1},
    ],
)
def test_a_wrong_key_is_refused(wrong):
    with pytest.raises(ValueError):
        pipeline(counts=[{**SPEC, **wrong}])


def test_a_table_takes_counts_or_events():
    with pytest.raises(ValueError, match="a table of its own"):
        pipeline(counts=[{"table": "db.click"}])
    with pytest.raises(ValueError, match="a table of its own"):
        pipeline(counts=[SPEC, SPEC])
