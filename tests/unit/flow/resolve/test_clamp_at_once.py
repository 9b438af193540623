"""Clamping all instants of a partition at once gives what clamping them one by one gives."""

from __future__ import annotations

from array import array

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.flow.resolve.clamp import PartitionAnswers, _at_once, _place
from sluice.state.boundaries.boundary import CODE, UNKNOWN, FoundBy, PartitionColumn, TopicBoundaries

OFFSETS = st.integers(0, 60)


@st.composite
def stored(draw: st.DrawFn) -> TopicBoundaries:
    """Up to six instants of one partition, the first of which it may not have been known at."""
    instants = sorted(draw(st.sets(st.integers(0, 20), max_size=6)))
    offsets = sorted(draw(st.lists(OFFSETS, min_size=len(instants), max_size=len(instants))))
    unknown = draw(st.integers(0, len(instants)))
    column = PartitionColumn(
        offsets[unknown] if unknown < len(offsets) else 0,
        array("q", [UNKNOWN] * unknown + offsets[unknown:]),
        array("q", offsets),
        array("q", [0] * len(offsets)),
        array("b", [CODE[FoundBy.RECORD]] * len(offsets)),
    )
    return TopicBoundaries("dc1", "bids", "id", array("q", instants), {0: column} if instants else {})


@given(
    stored(),
    st.lists(st.tuples(OFFSETS, st.sampled_from(list(FoundBy))), max_size=20),
    st.integers(0, 9),
    st.integers(0, 20),
    st.integers(0, 9),
)
@settings(deadline=None)
def test_the_same_boundaries(known, answered, log_start, certain_from, lowest):
    free = [instant for instant in range(20) if known.row(instant) is None][: len(answered)]
    offsets, found = [at for at, _ in answered], [how for _, how in answered]
    said = PartitionAnswers(log_start, log_start, offsets, found)
    instants, rows = array("q", free), list(range(len(free)))
    above = np.searchsorted(np.asarray(known.instants, np.int64), np.asarray(instants, np.int64))
    hidden = np.asarray(instants, np.int64) < certain_from
    at_once = _at_once(known, 0, above, rows, said, hidden, lowest)
    one_by_one = _place(known, 0, instants, rows, said, certain_from, lowest)
    assert at_once is None or at_once == one_by_one
    if CODE[FoundBy.LOG_START] in [code for code in one_by_one.codes if code] and at_once is not None:
        assert FoundBy.LOG_START in found  # it was Kafka's own answer, not an expiry


def test_it_is_used_where_nothing_has_expired():
    known = TopicBoundaries("dc1", "bids", "id", array("q"), {})
    said = PartitionAnswers(0, 0, [0, 5, 5], [FoundBy.RECORD, FoundBy.RECORD, FoundBy.END])
    placed = _at_once(known, 0, np.zeros(3, np.intp), [0, 1, 2], said, np.ones(3, bool), 0)
    assert placed is not None and list(placed.offsets) == [0, 5, 5]
