"""Reads the name and the definition of a table's engine: whoever compares engines asks here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

# Keeper's path and the replica's name, with which the server itself begins the arguments of these families.
_QUOTED = r"\s*'(?:\\.|[^'\\])*'\s*"
_NAME = re.compile(r"(?P<family>Replicated|Shared)?(?P<kind>\w*MergeTree)")
_PLACE = re.compile(rf"\({_QUOTED},{_QUOTED}(?:,\s*)?")

_MERGING = ("SummingMergeTree", "AggregatingMergeTree", "ReplacingMergeTree", "CoalescingMergeTree")
# They put other values into rows that they merge, also of one INSERT.
_COMPUTING = ("SummingMergeTree", "AggregatingMergeTree", "CoalescingMergeTree", "GraphiteMergeTree")


class Family(StrEnum):
    """Who has a table's rows: one server; replicas, each with its copy; or all of ClickHouse Cloud's."""

    PLAIN = ""
    REPLICATED = "Replicated"
    SHARED = "Shared"


@dataclass(frozen=True)
class Engine:
    """`kind` is the name without its family. `full` is the definition as a table of one server has it, with
    its keys and settings."""

    family: Family
    kind: str
    full: str

    @property
    def replicated(self) -> bool:
        """Whether other servers carry out its changes, too."""
        return self.family is not Family.PLAIN

    @property
    def stores(self) -> bool:
        """Whether rows stay in the table, and do not only pass through it."""
        return self.kind != "Null"

    @property
    def merge_tree(self) -> bool:
        return self.kind.endswith("MergeTree")

    @property
    def keeps(self) -> bool:
        """Whether every row stays that is inserted, as far as none expires."""
        return self.kind == "MergeTree"

    @property
    def merges(self) -> bool:
        """Whether FINAL gives the same rows whatever was merged."""
        return self.kind in _MERGING

    @property
    def computes(self) -> bool:
        """Whether merges put other values into rows."""
        return self.kind in _COMPUTING

    @property
    def certain(self) -> bool:
        """Whether it is certain which rows are there, as far as none expires."""
        return self.keeps or self.merges


def engine_of(name: str, full: str = "") -> Engine:
    """Reads `engine` and `engine_full` of system.tables.

    `SharedReplacingMergeTree('/tables/{uuid}', '{replica}', _version) ORDER BY id` is of the family SHARED
    and the kind ReplacingMergeTree, and its `full` is `ReplacingMergeTree(_version) ORDER BY id`.
    """
    match = _NAME.fullmatch(name)
    if match is None or not match["family"]:
        return Engine(Family.PLAIN, name, full)
    rest = full.removeprefix(name)
    if place := _PLACE.match(rest):
        rest = f"({rest[place.end() :]}"
    return Engine(Family(match["family"]), match["kind"], f"{match['kind']}{rest}" if full else "")
