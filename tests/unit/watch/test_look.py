"""Which hours a look reads, and which of them it has verified."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.verdict import OpenAnomaly, Verification, opened_by
from sluice.slices import Slice, SliceRange
from sluice.watch import look
from sluice.watch.look import by_slice, checksum, chosen, newest, to_verify
from sluice.watch.problems import Looked, WatchState, decode, encode
from tests.support.verified import START, pipeline

AT = Verification("2026-11-21T00:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T20:00:00Z", 2, 9, 2)
TEN, ELEVEN = "2026-11-20T10Z", "2026-11-20T11Z"


def hours(first: int, last: int) -> SliceRange:
    """Hours from one after START to another, which is not included."""
    return SliceRange(START.add(hours=first), START.add(hours=last))


def opened(kind: AnomalyKind, slice_id: str = TEN, **more: str) -> OpenAnomaly:
    place = {"slice": slice_id, "cluster": "dc1", "table": "e.clicks"}
    return opened_by(Anomaly(kind, "5 rows", "4", **{**place, **more}), AT)


@pytest.fixture
def five(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "MOST_UNITS", 5)


@pytest.mark.usefixtures("five")
def test_a_share_of_the_older_hours_goes_round():
    recent, older, begin, shares = hours(12, 24), hours(0, 12), "", []
    for _ in range(4):
        choice = chosen(recent, older, begin, [], [], 1)
        begin = choice.next
        assert choice.spans[0] == recent
        shares.append(choice.spans[1])
    assert shares == [hours(0, 5), hours(5, 10), hours(10, 12), hours(0, 5)]


@pytest.mark.usefixtures("five")
def test_a_share_has_as_many_units_whatever_the_number_of_clusters():
    assert chosen(hours(12, 24), hours(0, 12), "", [], [], 2).spans[1] == hours(0, 2)
    assert chosen(hours(12, 24), hours(0, 12), "", [], [], 9).spans[1] == hours(0, 1)


@pytest.mark.parametrize("begin", ["2026-11-20T1015Z", "2027-01-01T00Z", "2020-01-01T00Z", "no slice"])
def test_a_place_that_is_none_of_the_older_hours_begins_anew(begin: str):
    assert chosen(hours(12, 24), hours(0, 12), begin, [], [], 1).spans[1].start == START


@pytest.mark.usefixtures("five")
def test_hours_that_have_changed_are_read_besides_as_far_as_there_is_room():
    some = [Slice(START.add(hours=n)) for n in (3, 6, 7, 20)]
    choice = chosen(hours(12, 24), hours(0, 12), "", some, [], 1)
    assert choice.spans[2:] == (hours(6, 8),)  # the others are read anyway
    many = [Slice(START.add(hours=n)) for n in range(5, 12)]
    choice = chosen(hours(12, 24), hours(0, 12), "", many, [], 1)
    assert choice.spans[2:] == (hours(7, 12),)
    assert choice.left == {many[0], many[1]}
    # Those that are known by now leave their room to the others.
    choice = chosen(hours(12, 24), hours(0, 12), "", many, many[2:], 1)
    assert choice.spans[2:] == (hours(5, 7), hours(7, 12))
    assert choice.left == frozenset()


def test_of_many_ranges_the_newest_are_taken():
    apart = [Slice(START.add(hours=2 * n)) for n in range(20)]
    assert newest(apart, 20) == [hours(2 * n, 2 * n + 1) for n in range(19, 11, -1)]


def test_what_is_seen_for_the_first_time_is_verified_once():
    seen = {TEN: [opened(AnomalyKind.ROWS_EXTRA)]}
    assert to_verify([TEN, ELEVEN], seen, {}, {}) == {TEN}
    # verify calls it otherwise, and that is what is known from then on
    found = {TEN: [opened(AnomalyKind.ROWS_DUPLICATE)]}
    known = {TEN: checksum(seen[TEN], found[TEN])}
    assert to_verify([TEN, ELEVEN], seen, found, known) == set()


def test_what_changes_or_is_over_is_verified_again():
    seen, found = [opened(AnomalyKind.ROWS_MISSING)], [opened(AnomalyKind.ROWS_MISSING)]
    known = {TEN: checksum(seen, found)}
    fewer = [replace(seen[0], message="expected 5 rows, seen 3")]
    assert to_verify([TEN], {TEN: fewer}, {TEN: found}, known) == {TEN}
    assert to_verify([TEN], {}, {TEN: found}, known) == {TEN}
    assert to_verify([TEN], {TEN: seen}, {}, known) == {TEN}
    # a run has repaired it, and its verify has found it whole
    assert to_verify([TEN], {}, {}, known) == set()


def test_only_what_counts_show_is_grouped_by_its_hours():
    neighbours = opened(AnomalyKind.GAP, ELEVEN, table="")
    neighbours = replace(neighbours, slices=(ELEVEN, TEN))
    unaligned = opened(AnomalyKind.ROWS_UNCOVERED, "2026-11-20T10:20:05Z")
    view = opened(AnomalyKind.READERS_VIEW, "")
    others = [
        opened(AnomalyKind.VALUES),
        opened(AnomalyKind.INCOMPLETE),
        replace(opened(AnomalyKind.ROWS_UNCOVERED), cause="e.clicks"),
    ]
    grouped = by_slice(pipeline(), [neighbours, unaligned, view, *others])
    assert grouped == {TEN: [neighbours, unaligned], ELEVEN: [neighbours], "": [view]}


def test_an_hour_that_is_no_hour_is_of_none():
    assert list(by_slice(pipeline(), [opened(AnomalyKind.ROWS_EXTRA, "2026-99-99T99Z")])) == [""]


def test_where_a_look_stands_is_stored_and_a_state_without_it_is_read():
    state = WatchState(looked=Looked(TEN, {"e.clicks": (1, -2)}, {TEN: "abc"}))
    assert decode(encode(state), "x") == state
    assert decode(b'{"alarms": {}, "log_starts": {}, "open": {}, "judged": {}}', "x") == WatchState()
