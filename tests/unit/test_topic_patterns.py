from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.topic_patterns import LONGEST_NAME, TopicPatterns, mistake

NAMES = [
    "orders",
    "orders.eu",
    "orders.eu.test",
    "orders_eu",
    "ordersXeu",
    "a.orders",
    "__consumer_offsets",
    "-",
]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["orders.*"], [], ["orders.eu", "orders.eu.test"]),
        (["orders.*"], ["*.test"], ["orders.eu"]),
        (["orders.*"], ["orders.eu"], ["orders.eu.test"]),
        (["orders*"], [], ["orders", "ordersXeu", "orders.eu", "orders.eu.test", "orders_eu"]),
        (["*orders"], [], ["a.orders", "orders"]),
        (["*"], ["orders*"], ["-", "a.orders"]),
        (["*.eu*"], [], ["orders.eu", "orders.eu.test"]),
        (["^orders.eu"], [], ["ordersXeu", "orders.eu", "orders.eu.test", "orders_eu"]),
        (["^orders[.]eu$"], [], ["orders.eu"]),
        (["^.*"], ["^orders", "-"], ["a.orders"]),
        (["^__consumer_offsets"], [], []),
        (["__*"], [], []),
    ],
)
def test_which_topics_match(include: list[str], exclude: list[str], expected: list[str]):
    assert TopicPatterns(tuple(include), tuple(exclude)).matching(NAMES) == tuple(sorted(expected))


@given(st.text("ab.*", min_size=1, max_size=8).filter(lambda text: "*" in text), st.text("ab.", max_size=8))
def test_a_star_is_any_run_of_characters(pattern: str, name: str):
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
    assert TopicPatterns((pattern,)).matches(name) is expected


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){20}$", "*a" * 100 + "*", "^(a?){99}a{99}$"]
)
def test_a_hostile_pattern_takes_no_time(pattern: str):
    began = time.monotonic()
    TopicPatterns((pattern,)).matching("a" * (LONGEST_NAME - n - 1) + "!" for n in range(20))
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders.eu", ""),
        ("orders.*", ""),
        ("^orders[.]", ""),
        ("or ders", "Kafka has no topic 'or ders': expected letters, digits, . _ and -, or a pattern"),
        ("..", "Kafka has no topic '..'"),
        ("orders.?*", "no topic's name is like 'orders.?*': expected letters, digits, . _ and -, and a *"),
        ("^(", "'^(' is no regular expression of RE2's (missing ): ^("),
        (r"^(a)\1", r"'^(a)\\1' is no regular expression of RE2's (invalid escape sequence: \1"),
        ("^(a{1000}){1000}", "is no regular expression of RE2's"),
        ("^" + "a" * 1000, "has more than 1,000 characters"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, expected: str):
    found = mistake(text)
    assert expected in found and (found == "") is (expected == "") and "\n" not in found


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("orders.*", "orders.eu*", True),
        ("orders.*", "clicks.*", False),
        ("^x", "clicks.*", True),
        ("*a", "b*", True),
    ],
)
def test_whether_two_may_name_one_topic(one: str, other: str, expected: bool):
    patterns = TopicPatterns((one,)), TopicPatterns((other,))
    assert patterns[0].may_meet(patterns[1]) is patterns[1].may_meet(patterns[0]) is expected
