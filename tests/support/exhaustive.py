"""Breadth-first search over every state that a model can reach."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
Moves = Callable[[S], Iterable[tuple[str, S]]]


@dataclass(frozen=True)
class Found(Generic[S]):
    """`states` were seen. `trace` is the shortest way to a wrong one, move by move; empty: none is wrong."""

    states: int
    trace: tuple[str, ...]
    last: S | None = None

    def __str__(self) -> str:
        lines = [f"{number:3}. {move}" for number, move in enumerate(self.trace, start=1)]
        return "\n".join([*lines, f"     wrong: {self.last}", f"     ({self.states:,} states seen)"])


def search(starts: Iterable[S], moves: Moves[S], wrong: Callable[[S], bool]) -> Found[S]:
    """Stops at the first wrong state, which is one of those that take the fewest moves."""
    came: dict[S, tuple[S, str] | None] = dict.fromkeys(starts)
    level = list(came)
    while level:
        following: list[S] = []
        for state in level:
            if wrong(state):
                return Found(len(came), tuple(_trace(came, state)), state)
            for label, after in moves(state):
                if after not in came:
                    came[after] = (state, label)
                    following.append(after)
        level = following
    return Found(len(came), ())


def _trace(came: dict[S, tuple[S, str] | None], state: S) -> Iterator[str]:
    labels = []
    while (step := came[state]) is not None:
        state, label = step
        labels.append(label)
    return reversed(labels)
