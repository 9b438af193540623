"""Mutants of the rooms that decide: `make mutants`. See docs/RELIABILITY.md, "Mutants".

Exit code 1 when the tests of a room kill less than 90 % of its mutants, or when one survives that is not
listed in equal.toml, or when one is listed that is none any more.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.mutants.equal import equal
from tests.mutants.judge import KILLED, Verdict, judge, warm
from tests.mutants.mutate import Key, Mutant, mutants
from tests.mutants.rooms import ROOMS, Room
from tests.mutants.server import serving
from tests.mutants.verdicts import Verdicts

ENOUGH = 0.9


@dataclass
class Tally:
    mutants: int = 0
    killed: int = 0
    equal: int = 0
    survived: list[Mutant] = field(default_factory=list)
    stale: list[Key] = field(default_factory=list)

    @property
    def enough(self) -> bool:
        return not self.survived and not self.stale and self.killed >= ENOUGH * self.mutants


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", help="only these; without any: all")
    wanted = parser.parse_args(arguments).rooms or list(ROOMS)
    reasons, kept = equal(), Verdicts()
    tallies: dict[str, Tally] = {}
    for name in wanted:
        tallies[name] = judged(name, ROOMS[name], kept, reasons)
        print(line(name, tallies[name]), flush=True)
        for mutant in tallies[name].survived:
            print(f"    {mutant.function or '(module)'}: {mutant.change}", flush=True)
        for _, function, change in tallies[name].stale:
            print(f"    listed in equal.toml, and no mutant: {function or '(module)'}: {change}", flush=True)
    print(line("all", together(tallies.values())))
    return 0 if all(tally.enough for tally in tallies.values()) else 1


def judged(name: str, room: Room, kept: Verdicts, reasons: dict[Key, str]) -> Tally:
    """The room's numbers; every verdict is stored as soon as it is known."""
    found = mutants(name, room.path.read_text(), room.sql)
    all_of = [mutant for mutant in found if mutant.function.split(".")[0] not in room.acts]
    known = {mutant.key: kept.get(room, mutant) for mutant in all_of}
    open_ones = [mutant for mutant in all_of if known[mutant.key] is None]
    if open_ones:
        with serving(room):
            known |= judged_now(room, open_ones, kept)
    return tally(all_of, [*known.values()], reasons)


def judged_now(room: Room, open_ones: list[Mutant], kept: Verdicts) -> dict[Key, Verdict]:
    found: dict[Key, Verdict] = {}
    limit = 3 + 5 * warm(room)
    killers: Counter[str] = Counter()
    for mutant in open_ones:
        first = [kept.by(mutant), *(test for test, _ in killers.most_common(5))]
        verdict = judge(room, mutant.source, limit, [test for test in first if test])
        found[mutant.key] = verdict
        killers[verdict.by] += bool(verdict.by)
        kept.put(room, mutant, verdict)
        if sys.stderr.isatty():
            print(f"{room.at}: {len(found)} of {len(open_ones)}", end="\r", file=sys.stderr)
    return found


def tally(all_of: list[Mutant], verdicts: list[Verdict], reasons: dict[Key, str]) -> Tally:
    keys = {mutant.key for mutant in all_of}
    rooms = {mutant.room for mutant in all_of}
    counted = Tally(len(all_of), stale=[key for key in reasons if key[0] in rooms and key not in keys])
    for mutant, verdict in zip(all_of, verdicts, strict=True):
        if verdict.outcome == KILLED:
            counted.killed += 1
        elif mutant.key in reasons:
            counted.equal += 1
        else:
            counted.survived.append(mutant)
    return counted


def together(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for one in tallies:
        whole.mutants += one.mutants
        whole.killed += one.killed
        whole.equal += one.equal
        whole.survived += one.survived
        whole.stale += one.stale
    return whole


def line(name: str, counted: Tally) -> str:
    share = counted.killed / counted.mutants if counted.mutants else 1
    return (
        f"{name:28} {counted.mutants:5} mutants  {counted.killed:5} killed ({share:6.1%})  "
        f"{counted.equal:3} equal  {len(counted.survived):3} survived"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
