"""Each channel is notified of each problem once, and once more when it is over."""

from __future__ import annotations

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.verify.verdict import Verdict
from sluice.plan.lag import Lag
from sluice.slices import SliceRange
from sluice.state.boundaries.model import Boundaries
from sluice.watch.observe import Observation
from sluice.watch.problems import (
    MOST_LINES,
    Alarm,
    LogStart,
    Open,
    Problem,
    ProblemKind,
    ProblemSource,
    WatchState,
    body,
    bounded,
    decide,
    decode,
    encode,
    forget,
    pending,
    subject,
    with_notified,
)
from sluice.watch.watch import after
from tests.unit.doctor.test_doctor_kafka import pipeline


def problem(place: str, message: str = "m", *sources: ProblemSource) -> Problem:
    return Problem(ProblemKind.OVERDUE, place, message, sources)


def rounds(*looks: list[Problem], channels=("a",)) -> list[tuple[list[str], list[str]]]:
    """(places raised, places cleared) that channel `a` is notified of in each run."""
    alarms: dict[str, Alarm] = {}
    heard = []
    for at, problems in enumerate(looks):
        alarms = decide(problems, alarms, (), str(at))
        for channel in channels:
            notice = pending(alarms, channel)
            alarms = with_notified(alarms, channel, notice)
            if channel == "a":
                raised = [alarm.problem.place for alarm in notice.raised]
                heard.append((raised, [alarm.problem.place for alarm in notice.cleared]))
    return heard


def test_once_when_it_begins_and_once_when_it_is_over():
    one = problem("x")
    assert rounds([one], [one], [one], [], []) == [(["x"], []), ([], []), ([], []), ([], ["x"]), ([], [])]


def test_a_changed_message_is_no_new_problem():
    assert rounds([problem("x", "3 h left")], [problem("x", "2 h left")])[1] == ([], [])


def test_it_may_come_back():
    assert rounds([problem("x")], [], [problem("x")]) == [(["x"], []), ([], ["x"]), (["x"], [])]


def test_several_at_once_are_one_notice():
    assert rounds([problem("y"), problem("x")], [problem("z")]) == [(["x", "y"], []), (["z"], ["x", "y"])]


def test_an_hour_that_is_told_of_otherwise_is_not_over():
    x, y = problem("x"), problem("y")
    alarms = {one.key: Alarm(one, "1", ("a",)) for one in (x, y)}
    after = decide([], alarms, (), "2", {x.key})
    assert {alarm.problem.place: alarm.over for alarm in after.values()} == {"x": False, "y": True}


def test_what_nobody_was_told_of_is_forgotten_without_a_word():
    alarms = decide([problem("x")], {}, (), "1")
    assert decide([], alarms, (), "2") == {}


def test_a_channel_that_failed_is_told_the_next_time_and_the_other_not_again():
    alarms = decide([problem("x")], {}, (), "1")
    alarms = with_notified(alarms, "a", pending(alarms, "a"))  # b was unavailable
    alarms = decide([problem("x")], alarms, (), "2")
    assert not pending(alarms, "a")
    assert [a.problem.place for a in pending(alarms, "b").raised] == ["x"]
    alarms = decide([], alarms, (), "3")
    assert not pending(alarms, "b")
    assert [a.problem.place for a in pending(alarms, "a").cleared] == ["x"]


def test_back_before_everybody_heard_of_its_end():
    alarms: dict[str, Alarm] = decide([problem("x")], {}, (), "1")
    for channel in ("a", "b"):
        alarms = with_notified(alarms, channel, pending(alarms, channel))
    alarms = decide([], alarms, (), "2")
    alarms = with_notified(alarms, "a", pending(alarms, "a"))
    alarms = decide([problem("x")], alarms, (), "3")
    assert [a.since for a in pending(alarms, "a").raised] == ["1"]
    assert not pending(alarms, "b")


def test_what_cannot_be_seen_is_not_over():
    seen = decide([problem("x", "m", ProblemSource.KAFKA, ProblemSource.LAKE)], {}, (), "1")
    seen = with_notified(seen, "a", pending(seen, "a"))
    assert not pending(decide([], seen, {ProblemSource.KAFKA}, "2"), "a")
    assert pending(decide([], seen, {ProblemSource.CLICKHOUSE}, "2"), "a").cleared


def test_an_event_is_told_once_and_has_no_end():
    event = Problem(ProblemKind.SCHEMA, "slice x, type click", "m", (ProblemSource.LAKE,))
    assert rounds([event], [event], [], [problem("y")], [problem("y")]) == [
        (["slice x, type click"], []),
        ([], []),
        ([], []),
        (["y"], []),
        ([], []),
    ]
    seen = decide([event], {}, (), "1")
    assert decide([], with_notified(seen, "a", pending(seen, "a")), (), "2") == {}


def test_a_channel_that_is_no_longer_in_the_file_is_forgotten():
    alarms = with_notified(
        decide([problem("x")], {}, (), "1"), "old", pending(decide([problem("x")], {}, (), "1"), "old")
    )
    assert forget(alarms, ["new"])["hour overdue|x"].notified == ()
    over = decide([], alarms, (), "2")
    assert forget(over, ["new"]) == {}


LOOKS = st.lists(st.sets(st.sampled_from("xyz")), max_size=12)


@given(LOOKS)
def test_told_begin_and_end_always_alternate(looks):
    """For any history: what a channel believes after each look is what was so."""
    believed: set[str] = set()
    heard = rounds(*[[problem(p) for p in sorted(look)] for look in looks], channels=("a", "b"))
    for look, (raised, cleared) in zip(looks, heard, strict=True):
        assert not believed & set(raised)
        assert believed >= set(cleared)
        believed = (believed | set(raised)) - set(cleared)
        assert believed == look


def test_the_stored_form_comes_back_as_it_was():
    alarms = decide([problem("x", "m", ProblemSource.KAFKA)], {}, (), "1")
    known = WatchState(alarms, {"dc1/bids/0": LogStart(7, 1000, True, (3, 500))})
    assert decode(encode(known), "here") == known


def test_the_message():
    alarms = decide([problem("x", "late"), problem("y", "late")], {}, (), "2026-11-20T10:00:00+00:00")
    alarms = with_notified(alarms, "a", pending(alarms, "a"))
    notice = pending(decide([problem("z", "{{ 7 * 7 }}")], alarms, (), "now"), "a")
    assert subject("adx", notice) == "[sluice] adx: 1 problem, 2 over"
    assert body(notice).splitlines() == [
        "PROBLEM hour overdue: z: {{ 7 * 7 }}",
        "OVER hour overdue: x (open since 2026-11-20T10:00:00+00:00)",
        "OVER hour overdue: y (open since 2026-11-20T10:00:00+00:00)",
    ]
    tables = [Problem(ProblemKind.TABLE, f"{n}", "m") for n in range(MOST_LINES + 9)]
    many = pending(decide(tables, {}, (), "1"), "a")
    assert len(body(many).splitlines()) == MOST_LINES + 1
    assert body(many).endswith("and 9 more: status and verify show all")


def hours(count: int, kind: ProblemKind = ProblemKind.OVERDUE) -> list[Problem]:
    return [
        Problem(kind, f"slice 2026-11-20T{n:02}Z/dc1", f"not landed {23 - n} hours") for n in range(count)
    ]


def test_many_slices_with_one_problem_are_a_line_and_few_have_one_each():
    expired = hours(2, ProblemKind.EXPIRED)
    mixed = [*expired, Problem(ProblemKind.LAG, "seconds", "late")]
    notice = pending(decide([*hours(24), *mixed], {}, (), "2026-11-21T00:00:00+00:00"), "a")
    assert subject("adx", notice) == "[sluice] adx: 4 problems"
    span = "24 times, from slice 2026-11-20T00Z/dc1 to 2026-11-20T23Z/dc1"
    assert body(notice).splitlines() == [
        f"PROBLEM hour overdue: {span}; of the first: not landed 23 hours",
        "PROBLEM lag: seconds: late",
        *(f"PROBLEM {problem}" for problem in expired),
    ]
    three = pending(decide(hours(3), {}, (), "now"), "a")
    assert body(three).splitlines() == [f"PROBLEM {problem}" for problem in hours(3)]


def test_what_is_over_is_told_together_too_since_the_first_of_them():
    alarms = decide(hours(2), {}, (), "2026-11-21T00:00:00+00:00")
    alarms = decide(hours(5), alarms, (), "2026-11-21T01:00:00+00:00")
    alarms = with_notified(alarms, "a", pending(alarms, "a"))
    notice = pending(decide([], alarms, (), "later"), "a")
    assert subject("adx", notice) == "[sluice] adx: 1 over"
    span = "5 times, from slice 2026-11-20T00Z/dc1 to 2026-11-20T04Z/dc1"
    assert body(notice) == f"OVER hour overdue: {span} (open since 2026-11-21T00:00:00+00:00)"


def seen(count: int, **more: str) -> list[Problem]:
    return [problem(f"slice {number:05}", **more) for number in range(count)]


def test_problems_that_are_kept_have_a_bound():
    """A thousand are told one by one; what is beyond is a number, until there is room for them."""
    assert bounded(seen(1000), {}) == tuple(seen(1000))
    kept = bounded(seen(1234), {})
    assert kept[:1000] == tuple(seen(1000))
    [more] = kept[1000:]
    assert (more.kind, more.place) == (ProblemKind.MORE, "beyond 1,000") and more.message.startswith(
        "234 more have"
    )
    alarms = decide(kept, {}, (), "1")
    assert len(alarms) == 1001
    # Those that are known stay, whatever comes before them; one that is over makes room for one.
    now = [*seen(1300)[1200:], *seen(1000)[1:]]
    again = bounded(now, with_notified(alarms, "a", pending(alarms, "a")))
    assert again[:-1] == tuple(seen(1000)[1:]) and again[-1].message.startswith("100 more have")
    gone = {key: alarm for key, alarm in alarms.items() if alarm.problem.place != "slice 00000"}
    assert [p.place for p in bounded(now, gone)][:2] == ["slice 01200", "slice 00001"]
    assert bounded(now, gone)[-1].message.startswith("99 more have")
    assert bounded(seen(700), alarms) == tuple(seen(700))


@given(st.lists(st.lists(st.integers(0, 40), unique=True), max_size=6), st.booleans())
def test_what_is_kept_never_grows_beyond(looks: list[list[int]], silent: bool):
    """Also where sources are silent, and what they showed stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sluice.watch.problems.MOST", 10)
        alarms: dict[str, Alarm] = {}
        for at, numbers in enumerate(looks):
            now = [problem(f"{number:02}", "m", ProblemSource.KAFKA) for number in numbers]
            problems = bounded(now, alarms)
            alarms = decide(problems, alarms, {ProblemSource.KAFKA} if silent and at % 2 else (), str(at))
            alarms = with_notified(alarms, "a", pending(alarms, "a"))
            assert len(alarms) <= 11
            kept = {p.key for p in problems}
            assert kept >= {p.key for p in now} or any(p.kind is ProblemKind.MORE for p in problems)


def test_long_texts_of_problems_are_cut_and_told_apart():
    one, other = (problem("x" * 600 + end, "m" * 9000) for end in "ab")
    first, second = bounded([one, other], {})
    assert first.key != second.key and first.place.startswith("x" * 500 + "…")
    assert len(first.place) < 520 and first.message == "m" * 4000 + "…"
    alarms = decide([first, second], {}, (), "1")
    assert bounded([one, other], alarms) == (first, second)
    assert len(encode(WatchState(alarms))) < 20_000


def test_partitions_of_topics_that_the_file_has_no_more_are_forgotten():
    """Those of its own stay, also while their cluster is silent."""
    names = ("dc1/bids/0", "dc1/bids/17", "dc1/old/0", "gone/bids/0")
    start = pendulum.datetime(2026, 11, 20, 10)
    spec, slices = pipeline(), SliceRange(start, start.add(hours=1))
    known = WatchState({}, {name: LogStart(5, 1) for name in names}, {name: Open(7, 2) for name in names})
    lag = Lag(at="", partitions=[], errors=["it is silent"])
    observation = Observation(slices, Boundaries(), (), lag, {}, Verdict(), None)
    kept = after(spec, known, observation, (), start)
    assert kept.log_starts == {name: LogStart(5, 1) for name in names[:2]}
    assert kept.open == {name: Open(7, 2) for name in names[:2]}
