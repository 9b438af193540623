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
        """Returns whether other servers make its changes as well."""
        return self.family is not Family.PLAIN

    @property
    def stores(self) -> bool:
        """Returns whether the table holds rows: they only pass through a Null."""
        return self.kind != "Null"

    @property
    def merge_tree(self) -> bool:
        return self.kind.endswith("MergeTree")

    @property
    def keeps(self) -> bool:
        """Returns whether merges remove no row but for its age."""
        return self.kind == "MergeTree"

    @property
    def merges(self) -> bool:
        """Returns whether FINAL gives the same rows before and after a merge."""
        return self.kind in _MERGING

    @property
    def computes(self) -> bool:
        """Returns whether merges change values."""
        return self.kind in _COMPUTING

    @property
    def certain(self) -> bool:
        """Returns whether the rows can be known: as they are, or by FINAL."""
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
