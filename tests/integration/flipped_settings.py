"""Every setting of a server with other values than its own, in groups that are halved to find what harms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import stays
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.sql import Sql, literal

HUGE = str(2**62)
# Of the settings that every statement sets back nearly none harms; of those that stay many do.
SET_BACK, STAYING = 256, 12
# Their extremes make a server sleep, crawl or fuzz itself for as long as the test would wait.
SLOW = re.compile(r"sleep|_speed|fuzzer|interactive_delay|_wait|_backoff|timeout|max_network_bytes")
# A load at one byte a second would be right, and take longer than the test waits.
RATE = re.compile(r"bandwidth|_rps|max_execution_speed")
# A user with these cannot be asked anything, or it is about the user, not about statements.
APART = ("readonly", "allow_ddl", "max_sessions_for_user", "profile")

Pair = tuple[str, str]


@dataclass(frozen=True)
class Group:
    """Settings of one user; `halves` are the logins of the users who have a half each."""

    login: str
    settings: Mapping[str, str]
    halves: tuple[Group, ...]
    whole: bool

    @property
    def pairs(self) -> list[Pair]:
        return list(self.settings.items())


def flips(client: Client) -> list[Pair]:
    """Every setting with each of its values that the server takes: another one, and the extremes."""
    rows = client.rows(
        "SELECT name, default, type FROM system.settings WHERE NOT is_obsolete AND alias_for = ''"
    )
    return [
        (name, value)
        for name, default, kind in rows
        if name not in APART
        for value in _values(client, name, default, kind)
        if value != default and _taken(client, name, value)
    ]


def _values(client: Client, name: str, default: str, kind: str) -> Sequence[str]:
    if kind in ("Bool", "BoolAuto"):
        return ["0" if default == "1" else "1"]
    if RATE.search(name):
        return ["1000000000"]
    if re.fullmatch(r"-?[0-9.]+|auto.*", default):
        return ["1", "2"] if SLOW.search(name) else ["0", "1", HUGE]
    if kind == "Map":
        return ["{'a':'0'}"]
    return [*_named(client, name), "x"]


def _named(client: Client, name: str) -> list[str]:
    """The values that the server's own refusal of a wrong one names."""
    try:
        client.run(Sql(f"SET {name} = 'no such value'"))
    except ServerError as error:
        return re.findall(r"'(\w+)'", error.reason.partition("one of")[2])[:4]
    return []


def _taken(client: Client, name: str, value: str) -> bool:
    try:
        client.run(Sql(f"SET {name} = {literal(value)}"))
    except ServerError:
        return False
    return True


def grouped(pairs: Sequence[Pair]) -> list[Group]:
    """Groups with each setting once, and below them their halves, all with a login of their own."""
    found: list[Group] = []
    for size, some in (
        (SET_BACK, [pair for pair in pairs if not stays(pair[0])]),
        (STAYING, [pair for pair in pairs if stays(pair[0])]),
    ):
        for items in _rounds(some):
            for start in range(0, len(items), size):
                _group(found, items[start : start + size], whole=True)
    return found


def _rounds(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """No setting is twice in one of them."""
    rounds: list[dict[str, str]] = []
    for name, value in pairs:
        chosen = next((one for one in rounds if name not in one), None)
        if chosen is None:
            rounds.append(chosen := {})
        chosen[name] = value
    return [list(settings.items()) for settings in rounds]


def _group(found: list[Group], pairs: Sequence[Pair], whole: bool = False) -> Group:
    middle = len(pairs) // 2
    halves = (_group(found, pairs[:middle]), _group(found, pairs[middle:])) if middle else ()
    group = Group(f"u{len(found)}", dict(pairs), halves, whole)
    found.append(group)
    return group
