"""Which topics a pattern of the pipeline file names. Pure.

A name of Kafka's has letters, digits, `.`, `_` and `-` alone. So a text with a `*`, or one that begins with
`^`, is never a name, and a dot in a name stays a dot:

    orders.eu      the topic of that name, and no other
    orders.*       every name that begins with `orders.`; `*` is any run of characters
    ^orders[.]     a regular expression, which librdkafka knows by its `^`, too; `$` says where a name ends

Regular expressions are RE2's, which take time in proportion to the name's length, whatever the expression.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

# https://github.com/apache/kafka/blob/4.2/clients/src/main/java/org/apache/kafka/common/internals/Topic.java
_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
LONGEST_NAME = 249
LONGEST_PATTERN = 1_000
INTERNAL = "__"
"""So begin `__consumer_offsets` and Kafka's other topics of its own: no pattern names them."""


def is_name(text: str) -> bool:
    """Returns whether Kafka may have a topic of that name."""
    return 0 < len(text) <= LONGEST_NAME and _CHARACTERS.issuperset(text) and text not in (".", "..")


def is_pattern(text: str) -> bool:
    return text.startswith("^") or "*" in text


def mistake(text: str) -> str:
    """Returns what is wrong with a name or a pattern; empty if nothing is."""
    if not is_pattern(text):
        known = "expected letters, digits, . _ and -, or a pattern: orders.* or ^orders"
        return "" if is_name(text) else f"Kafka has no topic {text[:99]!r}: {known}"
    if len(text) > LONGEST_PATTERN:
        return f"the pattern {text[:99]!r}… has more than {LONGEST_PATTERN:,} characters"
    if text.startswith("^"):
        return _refused(text)
    if not _CHARACTERS.issuperset(text.replace("*", "")):
        return (
            f"no topic's name is like {text[:99]!r}: expected letters, digits, . _ and -, and a * for any run"
        )
    return ""


def _refused(expression: str) -> str:
    import pyarrow as pa

    try:
        _search(expression, ["a"])
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0].removeprefix("Invalid regular expression: ")
        return f"{expression[:99]!r} is no regular expression of RE2's ({reason[:200]})"
    return ""


def _search(expression: str, names: list[str]) -> list[bool]:
    import pyarrow as pa
    import pyarrow.compute as pc

    return [bool(found) for found in pc.match_substring_regex(pa.array(names), expression).to_pylist()]


@dataclass(frozen=True)
class TopicPatterns:
    """Names every topic that one of `include` names and none of `exclude`, which may be names, too."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def matches(self, name: str) -> bool:
        return not name.startswith(INTERNAL) and _among(name, self.include) and not _among(name, self.exclude)

    def matching(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns those of the names that the patterns name, sorted."""
        return tuple(sorted({name for name in names if self.matches(name)}))

    def may_meet(self, other: TopicPatterns) -> bool:
        """Returns whether both may name one topic; False only if no name is like both."""
        return any(
            mine.startswith(theirs) or theirs.startswith(mine)
            for mine in map(_beginning, self.include)
            for theirs in map(_beginning, other.include)
        )

    def __str__(self) -> str:
        without = f" without {', '.join(self.exclude)}" if self.exclude else ""
        return f"{', '.join(self.include)}{without}"


def _among(name: str, patterns: Iterable[str]) -> bool:
    return any(_matches(pattern, name) for pattern in patterns)


@lru_cache(1 << 16)
def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("^"):
        return _search(pattern, [name])[0]
    return _like(pattern, name) if "*" in pattern else pattern == name


def _like(pattern: str, name: str) -> bool:
    """Takes each piece between stars where it is first found: no other place would do better."""
    first, *pieces, last = pattern.split("*")
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for piece in pieces:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _beginning(pattern: str) -> str:
    """Returns what every name begins with that the pattern names, as far as it is plain."""
    return "" if pattern.startswith("^") else pattern.split("*")[0]
