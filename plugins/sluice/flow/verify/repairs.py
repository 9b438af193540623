"""The commands that repair: exactly what a person types, or copies out of the answer of `sluice verify`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from sluice.config.pipeline import Pipeline, command_line
from sluice.flow.verify.anomaly import LAKE_ROW_KINDS, Anomaly
from sluice.slices import Slice
from sluice.state.status import UnitStatus


@dataclass(frozen=True)
class Repairs:
    """Commands for one pipeline; `config` is its file where its name alone does not find it."""

    pipeline: str
    config: Path | None = None

    @classmethod
    def of(cls, pipeline: Pipeline) -> Repairs:
        return cls(pipeline.name, pipeline.config)

    def fill(self, slice_: Slice) -> str:
        """Lands and loads what is missing or stale."""
        return self.run([slice_], "fill")

    def repair(self, slice_: Slice, table: str) -> str:
        """Loads one table again from the lake, with its rollups, by the rules of each unit's last load."""
        return self.run([slice_], "repair", table)

    def remake(self, slice_: Slice) -> str:
        """Parses the lake's own bytes again by the pipeline file as it is now."""
        return self.run([slice_], "remake")

    def reland(self, slice_: Slice) -> str:
        """Reads Kafka again with the stored boundaries, and replaces the slice everywhere."""
        return self.run([slice_], "reland")

    def run(self, slices: Sequence[Slice], mode: str, *tables: str) -> str:
        named = (word for table in tables for word in ("--table", table))
        return self._line("run", *_edges(slices[0], slices[-1]), "--mode", *mode.split(), *named)

    def clean(self, slice_: Slice | None = None) -> str:
        """Removes files that no manifest lists; without a slice wherever they are."""
        return self._line("verify", *(_edges(slice_, slice_) if slice_ else ()), "--clean")

    def erase_pending(self) -> str:
        """Applies the erasure list to what landed without some of its entries."""
        return self._line("erase", "--pending")

    def _line(self, command: str, *words: str) -> str:
        return command_line(self.pipeline, self.config, command, *words)


def _edges(first: Slice, last: Slice) -> tuple[str, ...]:
    return ("--from", _instant(first.start), "--to", _instant(last.end))


def _instant(at: datetime) -> str:
    """To the minute. Every unit has its commands, also those that need none: strftime would be slow."""
    return f"{at.year:04}-{at.month:02}-{at.day:02}T{at.hour:02}:{at.minute:02}Z"


def _named(tables: Iterable[str]) -> str:
    return "".join(f" --table {shlex.quote(table)}" for table in tables)


_WORD = r"""(?:[^\s'"]|'[^']*'|"[^"]*")+"""
_RANGED = re.compile(
    r"(?P<head>sluice (?:run|verify) .+) --from (?P<start>\S+) --to (?P<until>\S+)"
    rf"(?P<tail> --(?:mode \w+|clean|accept)(?: --yes)?)(?P<named>(?: --table {_WORD})*)",
    re.DOTALL,
)
_MODE, _YES = " --mode ", " --yes"


@dataclass(frozen=True)
class RangedCommand:
    """A command over `[start, until)`, as `Repairs` writes it; instants sort as their texts do. `named` are
    its words that name tables."""

    head: str
    start: str
    until: str
    tail: str
    named: str = ""

    @property
    def mode(self) -> str:
        """Returns the mode of a run; empty for another command."""
        mode = self.tail.removesuffix(_YES)
        return mode.removeprefix(_MODE) if mode.startswith(_MODE) else ""

    @property
    def yes(self) -> bool:
        """Returns whether it takes rows out, and so has the yes that it is asked for."""
        return self.tail.endswith(_YES)

    @property
    def tables(self) -> list[str]:
        """Returns the tables that it names; none where it is for all."""
        return shlex.split(self.named)[1::2]

    def __str__(self) -> str:
        return f"{self.head} --from {self.start} --to {self.until}{self.tail}{self.named}"


def ranged(command: str) -> RangedCommand | None:
    """Returns the parts of a command that has a range."""
    found = _RANGED.fullmatch(command)
    return RangedCommand(**found.groupdict()) if found else None


LakeDamage = Mapping[str, tuple[str, str]]
"""By the id of an hour whose rows in the lake are wrong the command that repairs it, and the advice."""


def as_printed(
    pipeline: Pipeline,
    statuses: Iterable[UnitStatus],
    anomalies: Sequence[Anomaly],
    damage: LakeDamage = MappingProxyType({}),
) -> list[Anomaly]:
    """Returns the anomalies with commands that work when they are pasted: one `repair` for each hour, and a
    `reland` with the yes that it needs; none that would load what the lake has wrong:
    `damage` is what an earlier comparison has found, and this one did not repeat."""
    retried, sound = retried_rules(statuses), _by_hour(pipeline, _not_from_damage(anomalies, damage))
    return [_consented(pipeline, retried, anomaly) for anomaly in sound]


def _not_from_damage(anomalies: Sequence[Anomaly], known: LakeDamage) -> list[Anomaly]:
    """Returns the anomalies with the lake's repair for tables of hours whose rows in the lake are wrong: a
    load would take right rows out of them."""
    found = {a.slice: (a.command, a.advice) for a in anomalies if a.kind in LAKE_ROW_KINDS}
    damage = {**known, **found}
    return [
        replace(one, command=damage[one.slice][0], advice=damage[one.slice][1], later="")
        if one.slice in damage and _loads_again(one.command or one.later)
        else one
        for one in anomalies
    ]


def _loads_again(command: str) -> bool:
    found = ranged(command)
    return found is not None and found.mode in ("repair", "reload")


Retried = Sequence[tuple[Slice, Sequence[str]]]
"""Slices of units of which retries have brought in records, and the digests of the rules by which."""


def retried_rules(statuses: Iterable[UnitStatus]) -> Retried:
    return [(s.unit.slice, s.manifest.retried) for s in statuses if s.manifest and s.manifest.retried]


def consented(pipeline: Pipeline, retried: Retried, command: str) -> tuple[str, str]:
    """Returns the command with the yes that it needs, and what has to follow it then.

    A `reland` lands by the landing's rules, and so rejects again what retries brought in by others. A retry
    works by the pipeline file, which may have none of these rules any more."""
    found = ranged(command)
    if found is None or found.mode != "reland" or found.yes:
        return command, ""
    again = [
        one for one in retried if found.start < _instant(one[0].end) and _instant(one[0].start) < found.until
    ]
    if not again:
        return command, ""
    slices = [slice_ for slice_, _ in again]
    retry = pipeline.command("rejected", *_edges(min(slices), max(slices)), "--retry")
    documents = dict.fromkeys(f"_rules/{digest}.json" for _, digests in again for digest in digests)
    return str(replace(found, tail=found.tail + _YES)), (
        f"what retries have brought in by other rules goes to _rejected/ again; then `{retry}` with each of "
        f"these rules in the pipeline file ({', '.join(documents)}) brings it in"
    )


def _consented(pipeline: Pipeline, retried: Retried, anomaly: Anomaly) -> Anomaly:
    command, advice = consented(pipeline, retried, anomaly.command)
    return replace(
        anomaly,
        seen=anomaly.seen.replace(f"`{anomaly.command}`", f"`{command}`") if advice else anomaly.seen,
        command=command,
        advice="; ".join(filter(None, (anomaly.advice, advice))),
    )


def _by_hour(pipeline: Pipeline, anomalies: Sequence[Anomaly]) -> list[Anomaly]:
    """Names in each hour's `repair` the tables that are wrong, and none where all of them are."""
    tables: dict[RangedCommand, set[str]] = {}
    every = {target.table for target in pipeline.targets}
    repairs = [_repair_in(anomaly.command) for anomaly in anomalies]
    for repair in filter(None, repairs):
        tables.setdefault(replace(repair, named=""), set()).update(repair.tables or every)
    words = {whole: "" if wrong >= every else _named(sorted(wrong)) for whole, wrong in tables.items()}
    return [
        anomaly
        if repair is None
        else replace(anomaly, command=str(replace(repair, named=words[replace(repair, named="")])))
        for anomaly, repair in zip(anomalies, repairs, strict=True)
    ]


def is_repair(command: str) -> bool:
    return _repair_in(command) is not None


def _repair_in(command: str) -> RangedCommand | None:
    found = ranged(command)
    return found if found and found.mode == "repair" else None


def commands(anomalies: Iterable[Anomaly]) -> list[str]:
    """Returns the commands that repair all of them, in an order that works: a `reland` also loads again,
    `--clean` is last, and a command of another kind comes behind it."""
    order = ("--mode reland", "--mode remake", "--mode fill", "--mode repair", "--clean")
    unordered = merged(anomaly.command for anomaly in anomalies)
    return sorted(unordered, key=lambda command: [*(part in command for part in order), True].index(True))


def merged(texts: Iterable[str]) -> list[str]:
    """Returns each command once, and one for ranges that meet. A `fill` does only what is missing: one of it
    reaches from the first hour to the last."""
    alike: dict[tuple[str, str, str], list[RangedCommand]] = {}
    others: dict[str, None] = {}
    for text in filter(None, texts):
        command = ranged(text)
        if command is None:
            others[text] = None
        else:
            alike.setdefault((command.head, command.tail, command.named), []).append(command)
    return [*(str(joined) for group in alike.values() for joined in _joined(group)), *others]


def _joined(group: Iterable[RangedCommand]) -> list[RangedCommand]:
    done: list[RangedCommand] = []
    for next_command in sorted(group, key=lambda command: (command.start, command.until)):
        if done and (next_command.start <= done[-1].until or next_command.mode == "fill"):
            done[-1] = replace(done[-1], until=max(done[-1].until, next_command.until))
        else:
            done.append(next_command)
    return done


def with_wait(advice: str, missing: Iterable[str], command: str) -> str:
    """Returns the advice, and that the command works once the tables are there."""
    return "; ".join(filter(None, (advice, f"when {' and '.join(sorted(missing))} is created: {command}")))


def without_wait(advice: str, command: str) -> str:
    """Returns the advice that `with_wait` was given."""
    return re.sub(rf"(?:^|; )when [^;]+ is created: {re.escape(command)}$", "", advice)
