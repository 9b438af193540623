"""What the fault tests tried, and how often the end state was wrong: one table at the end of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["kill", "race", "fault"]
_PLURALS: dict[Kind, str] = {"kill": "kills", "race": "races", "fault": "faults"}


@dataclass(frozen=True)
class Trial:
    """One kind of trouble at one named point; `victim` is what was killed, or what the fault was in."""

    kind: Kind
    victim: str
    point: str


@dataclass
class FaultLog:
    """Counts trials; `wrong` ones are those after which something was lost, twice, or left behind."""

    tried: Counter[Trial] = field(default_factory=Counter)
    wrong: Counter[Trial] = field(default_factory=Counter)

    def add(self, kind: Kind, point: str, wrong: bool, *, victim: str = "", times: int = 1) -> None:
        """Records `times` trials that ended alike. `wrong`: the end state was not the expected one."""
        trial = Trial(kind, victim, point)
        self.tried[trial] += times
        if wrong:
            self.wrong[trial] += times

    @contextmanager
    def trial(self, kind: Kind, point: str, *, victim: str = "", times: int = 1) -> Iterator[None]:
        """Records what happens inside; whatever is raised there counts as a wrong end state."""
        try:
            yield
        except BaseException:
            self.add(kind, point, True, victim=victim, times=times)
            raise
        self.add(kind, point, False, victim=victim, times=times)

    def rows(self) -> list[list[str | int]]:
        """Every trial with how often it was tried and how often wrong: plain values, for `add_all`."""
        return [[t.kind, t.victim, str(t.point), n, self.wrong[t]] for t, n in self.tried.items()]

    def add_all(self, rows: Iterable[Sequence[Any]]) -> None:
        """Adds what `rows()` of another process said."""
        for kind, victim, point, tried, wrong in rows:
            self.tried[Trial(kind, victim, point)] += tried
            self.wrong[Trial(kind, victim, point)] += wrong

    def table(self) -> list[str]:
        """Its lines: a row for each kind and victim, and the sums."""
        keys = sorted(
            {(t.kind, t.victim) for t in self.tried}, key=lambda key: (list(_PLURALS).index(key[0]), key)
        )
        rows = [("", "tried", "points", "wrong end state")]
        rows += [self._row(" ".join(filter(None, (_PLURALS[k], v and f"of the {v}"))), k, v) for k, v in keys]
        rows += [self._row(f"all {_PLURALS[kind]}", kind) for kind in _PLURALS]
        return [f"{name:<44}{tried:>8}{points:>8}{wrong:>17}" for name, tried, points, wrong in rows]

    def _row(self, name: str, kind: Kind, victim: str | None = None) -> tuple[str, str, str, str]:
        own = [t for t in self.tried if t.kind == kind and victim in (None, t.victim)]
        points = len({t.point for t in own})
        return name, f"{sum(self.tried[t] for t in own):,}", str(points), str(sum(self.wrong[t] for t in own))
