"""Says what ClickHouse's disks still hold of deleted rows, and until when; forces the server to remove it.

A load deletes a slice's rows by a lightweight DELETE: they are hidden at once, and stay in their part until
it is merged. A part that was replaced stays on disk for `old_parts_lifetime`, and the temporary table of a
load for `database_atomic_delay_before_drop_table_sec`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import SYSTEM, render, table
from sluice.config.pipeline import Pipeline
from sluice.safe_text import Say

_LIFETIME = re.compile(r"\bold_parts_lifetime\s*=\s*(\d+)")
_POLL_SECONDS = 1.0
_SAY_SECONDS = 60  # how often a wait says for how long it has gone on
_PATIENCE_SECONDS = 900  # beyond the lifetime: the server removes in rounds, and not what a query reads


@dataclass(frozen=True)
class LeftParts:
    """Of a table: parts in which deleted rows are only hidden, and replaced ones that are not removed yet.
    `lifetime`: seconds for which it keeps these."""

    table: str
    hidden: int
    replaced: int
    lifetime: int


@dataclass(frozen=True)
class LeftOnDisk:
    """Of one server. `dropped`: temporary tables whose files are there for at most `drop_delay` seconds."""

    server: str
    tables: tuple[LeftParts, ...]
    dropped: int
    drop_delay: int

    def wait(self, dropped: bool) -> Wait:
        """`dropped`: there are, or will be, dropped tables."""
        lifetimes = [parts.lifetime for parts in self.tables]
        kept = max([*lifetimes, self.drop_delay if dropped else 0])
        return Wait(self.server, kept, kept + _PATIENCE_SECONDS)

    @property
    def nothing(self) -> bool:
        return not self.dropped and not any(parts.hidden or parts.replaced for parts in self.tables)


@dataclass(frozen=True)
class Wait:
    """For how many seconds a server keeps what is replaced or dropped, and after how many nobody waits on."""

    server: str
    kept: int
    longest: int


@dataclass
class WaitLines:
    """Prints what a wait is for: at its begin, when that changes, and once a minute with its length."""

    say: Say
    _said: str = field(default="", init=False)
    _next: float = field(default=0, init=False)

    def note(self, text: str, waited: float) -> None:
        """`waited`: seconds since the wait began."""
        if text == self._said and waited < self._next:
            return
        self.say(f"{text}; waited {waited:,.0f} s" if self._said else text)
        self._said, self._next = text, waited + _SAY_SECONDS


@dataclass(frozen=True)
class ServerParts:
    """One server's part of a pipeline. `clock`: seconds."""

    client: Client
    pipeline: Pipeline
    say: Say = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def left(self) -> LeftOnDisk:
        lifetimes, (default, delay) = self._tables(), self._defaults()
        hidden, replaced = Counter[str](), Counter[str]()
        for name, _, active in self._parts(list(lifetimes)):
            (hidden if active else replaced)[name] += 1
        tables = (
            LeftParts(name, hidden[name], replaced[name], default if lifetime is None else lifetime)
            for name, lifetime in lifetimes.items()
        )
        return LeftOnDisk(self.client.address, tuple(tables), len(self._dropped()), delay)

    def force(self) -> LeftOnDisk:
        """Rewrites parts that hide deleted rows, and waits until old parts and dropped tables are removed.
        Returns what is left then, or after the longest wait."""
        names = list(self._tables())
        for name in dict.fromkeys(name for name, _, active in self._parts(names) if active):
            self.say(f"{name}: writing the parts without their deleted rows")
            self.client.run(render("erase/apply_mask", table=table(name)))
        replaced = {(name, part) for name, part, active in self._parts(names) if not active}
        dropped, still_left = set(self._dropped()), self.left()
        wait = still_left.wait(bool(dropped))
        lines, begun = WaitLines(self.say), self.clock()
        while (replaced or dropped) and (waited := self.clock() - begun) < wait.longest:
            text = (
                f"{self.client.address}: {len(replaced):,} replaced parts and {len(dropped):,} dropped "
                f"tables are still on disk; the server keeps such for about {wait.kept:,} s"
            )
            lines.note(text, waited)
            self.sleep(min(_POLL_SECONDS * 5, max(_POLL_SECONDS, wait.kept / 20)))
            replaced &= {(name, part) for name, part, active in self._parts(names) if not active}
            dropped &= set(self._dropped())
        return self._of(replaced, dropped, still_left)

    def _of(self, replaced: set[tuple[str, str]], dropped: set[str], still_left: LeftOnDisk) -> LeftOnDisk:
        counts = Counter(name for name, _ in replaced)
        names = (LeftParts(p.table, 0, counts[p.table], p.lifetime) for p in still_left.tables)
        return LeftOnDisk(still_left.server, tuple(names), len(dropped), still_left.drop_delay)

    def _tables(self) -> dict[str, int | None]:
        """Returns every table that a load writes rows to, and its own lifetime of replaced parts."""
        engines: dict[str, str] = {}
        for target in self.pipeline.targets:
            target_table = read_table(self.client, target.database, target.name)
            if target_table is not None:
                engines[target_table.table] = target_table.engine_full
                engines |= {view_table.table: view_table.engine_full for view_table in target_table.stored}
        engines.setdefault(f"{SYSTEM}.rejected", "")
        matches = {name: _LIFETIME.search(text) for name, text in engines.items()}
        return {name: None if match is None else int(match[1]) for name, match in matches.items()}

    def _parts(self, names: Sequence[str]) -> list[tuple[str, str, bool]]:
        rows = self.client.rows(render("erase/left_parts"), {"tables": list(names)})
        return [(name, part, bool(active)) for name, part, active in rows]

    def _dropped(self) -> list[str]:
        databases = sorted({SYSTEM, *(target.database for target in self.pipeline.targets)})
        return [
            uuid for (uuid,) in self.client.rows(render("erase/dropped_tables"), {"databases": databases})
        ]

    def _defaults(self) -> tuple[int, int]:
        [(lifetime, drop_delay)] = self.client.rows(render("erase/lifetimes"))
        return int(lifetime), int(drop_delay)
