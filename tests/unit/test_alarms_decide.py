"""Who is told what: each problem once, and once more when it is over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.alarms.decide import decide, forget, pending, told
from sluice.alarms.problem import Alarm, Kind, Known, LogStart, Problem, Source, decode, encode
from sluice.alarms.text import MOST, body, subject


def problem(place: str, message: str = "m", *sources: Source) -> Problem:
    return Problem(Kind.OVERDUE, place, message, sources)


def rounds(*looks: list[Problem], channels=("a",)) -> list[tuple[list[str], list[str]]]:
    """(places raised, places cleared) that channel `a` is told at each look."""
    alarms: dict[str, Alarm] = {}
    heard = []
    for at, problems in enumerate(looks):
        alarms = decide(problems, alarms, (), str(at))
        for channel in channels:
            notice = pending(alarms, channel)
            alarms = told(alarms, channel, notice)
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
    alarms = told(alarms, "a", pending(alarms, "a"))  # b was out of reach
    alarms = decide([problem("x")], alarms, (), "2")
    assert not pending(alarms, "a")
    assert [a.problem.place for a in pending(alarms, "b").raised] == ["x"]
    alarms = decide([], alarms, (), "3")
    assert not pending(alarms, "b")
    assert [a.problem.place for a in pending(alarms, "a").cleared] == ["x"]


def test_back_before_everybody_heard_of_its_end():
    alarms: dict[str, Alarm] = decide([problem("x")], {}, (), "1")
    for channel in ("a", "b"):
        alarms = told(alarms, channel, pending(alarms, channel))
    alarms = decide([], alarms, (), "2")
    alarms = told(alarms, "a", pending(alarms, "a"))
    alarms = decide([problem("x")], alarms, (), "3")
    assert [a.since for a in pending(alarms, "a").raised] == ["1"]
    assert not pending(alarms, "b")


def test_what_cannot_be_seen_is_not_over():
    seen = decide([problem("x", "m", Source.KAFKA, Source.LAKE)], {}, (), "1")
    seen = told(seen, "a", pending(seen, "a"))
    assert not pending(decide([], seen, {Source.KAFKA}, "2"), "a")
    assert pending(decide([], seen, {Source.CLICKHOUSE}, "2"), "a").cleared


def test_a_channel_that_is_no_longer_in_the_file_is_forgotten():
    alarms = told(
        decide([problem("x")], {}, (), "1"), "old", pending(decide([problem("x")], {}, (), "1"), "old")
    )
    assert forget(alarms, ["new"])["hour overdue|x"].told == ()
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
    alarms = decide([problem("x", "m", Source.KAFKA)], {}, (), "1")
    known = Known(alarms, {"dc1/bids/0": LogStart(7, 1000, True, (3, 500))})
    assert decode(encode(known), "here") == known


def test_the_message():
    alarms = decide([problem("x", "late"), problem("y", "late")], {}, (), "2026-11-20T10:00:00+00:00")
    alarms = told(alarms, "a", pending(alarms, "a"))
    notice = pending(decide([problem("z", "{{ 7 * 7 }}")], alarms, (), "now"), "a")
    assert subject("adx", notice) == "[sluice] adx: 1 problem, 2 over"
    assert body(notice).splitlines() == [
        "PROBLEM hour overdue: z: {{ 7 * 7 }}",
        "OVER hour overdue: x (open since 2026-11-20T10:00:00+00:00)",
        "OVER hour overdue: y (open since 2026-11-20T10:00:00+00:00)",
    ]
    many = pending(decide([problem(f"{n}") for n in range(MOST + 9)], {}, (), "1"), "a")
    assert len(body(many).splitlines()) == MOST + 1
    assert body(many).endswith("and 9 more: `sluice status` and `sluice verify` show all")
