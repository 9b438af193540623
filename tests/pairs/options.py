"""The options of a pipeline and of its target table, and cases that try every two of them together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations

from allpairspy import AllPairs

Pair = tuple[tuple[str, str], tuple[str, str]]

AXES: dict[str, tuple[str, ...]] = {
    "target": (
        "plain",
        "view",
        "two views",
        "two views into one table",
        "view of a view",
        "ttl",
        "projection",
        "partitioned",
        "narrow view",  # its table has more partitions than one INSERT may touch
    ),
    "columns": ("plain", "paths", "defaults", "nullable", "containers", "numbers"),
    "messages": ("json", "array", "avro", "avro by registry", "protobuf", "protobuf by registry"),
    "mask": ("none", "fields", "records"),
    "time": ("iso8601", "nested", "epoch_s", "epoch_ms", "record"),
    "slice": ("1h", "15m", "90m", "1d"),
    "type": ("field", "nested", "header", "topic"),
    "rollups": ("none", "slice", "narrow"),
    "servers": ("one", "by partition", "by expression"),
    "read": ("auto", "pull", "push"),
    "bounds": ("default", "tight", "none"),
    "expired": ("nothing", "fail", "land_rest"),
    "mode": ("fill", "reload", "reland"),
    "clusters": ("one", "two"),
    "lake": ("folder", "s3"),
    "counts": ("none", "by fields"),
    "batch": ("off", "on"),
    "max_types": ("enough", "exceeded"),
    "length": ("short", "long"),
    "catch_all": ("yes", "no"),
    "runs": ("at once", "one by one"),
    "checks": ("none", "warn", "reject", "hold"),
}


@dataclass(frozen=True)
class Case:
    """One value of each option; `number` is its place in the covering array, and a part of its seed."""

    number: int
    target: str = "plain"
    columns: str = "plain"
    messages: str = "json"
    mask: str = "none"
    time: str = "iso8601"
    slice: str = "1h"
    type: str = "field"
    rollups: str = "none"
    servers: str = "one"
    read: str = "auto"
    bounds: str = "default"
    expired: str = "nothing"
    mode: str = "fill"
    clusters: str = "one"
    lake: str = "folder"
    counts: str = "none"
    batch: str = "off"
    max_types: str = "enough"
    length: str = "short"
    catch_all: str = "yes"
    runs: str = "at once"
    checks: str = "none"

    def __str__(self) -> str:
        """The options that differ from the usual ones."""
        usual = asdict(Case(self.number))
        told = [f"{name}={value}" for name, value in asdict(self).items() if value != usual[name]]
        return f"case {self.number}: " + (", ".join(told) or "as usual")

    @property
    def shards(self) -> int:
        return 1 if self.servers == "one" else 2

    @property
    def arrays(self) -> bool:
        return self.messages == "array"

    @property
    def format(self) -> str:
        """json, avro or protobuf."""
        return "json" if self.arrays else self.messages.split()[0]

    @property
    def decoded(self) -> bool:
        return self.format != "json"

    @property
    def framed(self) -> bool:
        """Whether a schema's id stands in front of each message."""
        return self.messages.endswith("registry")

    @property
    def cluster_names(self) -> tuple[str, ...]:
        return ("dc1",) if self.clusters == "one" else ("dc1", "dc2")

    @property
    def one_by_one(self) -> bool:
        """Whether the first run is a run for each slice. All slices of a narrow view at once are too many
        partitions for one INSERT; an hourly run loads one."""
        return self.runs == "one by one" or self.target == "narrow view"


def covering_array() -> list[Case]:
    """Cases that hold every two options at least once."""
    assert list(AXES) == [field.name for field in fields(Case)][1:]

    def possible(row: Sequence[str]) -> bool:
        return stand_together(dict(zip(AXES, row, strict=False)))  # a row is made from its begin on

    rows = AllPairs(list(AXES.values()), filter_func=possible)
    cases = [Case(number, *row) for number, row in enumerate(rows)]
    left = every_pair() - set().union(*map(pairs_of, cases))  # behind what is not possible it may miss some
    return cases + [Case(number, **dict(pair)) for number, pair in enumerate(sorted(left), start=len(cases))]


def stand_together(options: Mapping[str, str]) -> bool:
    """Returns whether a pipeline file takes the options together; refusals.py has those that it refuses."""
    return options.get("mask", "none") == "none" or options.get("messages", "json") in ("json", "array")


def pairs_of(case: Case) -> set[Pair]:
    options = asdict(case)
    return {((one, options[one]), (other, options[other])) for one, other in combinations(AXES, 2)}


def every_pair() -> set[Pair]:
    return {
        ((one, first), (other, second))
        for one, other in combinations(AXES, 2)
        for first in AXES[one]
        for second in AXES[other]
        if stand_together({one: first, other: second})
    }
