"""A model of the load's lease and fencing: one unit, two chunks of the target, one of its view's table, and a
rejected row in sluice.rejected.

At every point a client may crash, the server may crash, a successor may take over (whether its predecessor
is dead, asleep or at work), and a statement goes on without its client. The model is harsher than ClickHouse:
a statement that has begun never notices that its table is dropped, one that was sent may begin at any later
time, and a mutation deletes also what came after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sluice.crash_points import TableLoad
from tests.models.lease_program import Act, Rule, program

WHOLE, NOTHING = (1, 1, 1, 1), (0, 0, 0, 0)
MANY = 2


class Attempt(NamedTuple):
    """`place` is in the program. `sent`: its statement is under way; `done` of its effects (-1: not begun).

    `mutation`: the chunks of a mutation that is not done, `read`: it has read the fence.
    """

    place: int = 0
    lives: bool = True
    replaces: bool = False
    fence: bool = False
    staging: bool = False
    sent: int = -1
    done: int = -1
    mutation: tuple[int, ...] = ()
    read: bool = False

    def ended(self) -> Attempt:
        return self._replace(lives=False, sent=-1, done=-1)


class State(NamedTuple):
    """`lease` is who holds it (an index). `ledger`: the newest row: (its generation, is it a commit)."""

    lease: int
    ledger: tuple[int, bool]
    chunks: tuple[int, ...]
    attempts: tuple[Attempt, ...]

    def change(self, who: int, attempt: Attempt) -> State:
        if not attempt.lives and attempt.sent < 0 and not attempt.mutation:
            attempt = Attempt(-1, False, fence=attempt.fence, staging=attempt.staging)
        return self._replace(attempts=(*self.attempts[:who], attempt, *self.attempts[who + 1 :]))


def _answered(attempt: Attempt) -> Attempt:
    """Its statement is done: the client, if it is there, goes on."""
    place = attempt.sent + 1 if attempt.lives else attempt.place
    return attempt._replace(place=place, sent=-1, done=-1)


def wrong(state: State) -> bool:
    """A committed ledger row means that each chunk is there exactly once."""
    return state.ledger[1] and state.chunks != WHOLE


EMPTY = State(-1, (-1, False), NOTHING, ())
COMMITTED = State(-1, (-1, True), WHOLE, ())
"""What the first attempt finds: nothing, or a unit that an earlier one has committed."""


class Model:
    """`modes` is the mode of each attempt that may be made, in order: fill, or reload."""

    def __init__(self, modes: tuple[str, ...], off: frozenset[Rule] = frozenset()) -> None:
        self.modes, self.off, self.program = modes, off, program(off)

    def moves(self, state: State) -> Iterator[tuple[str, State]]:
        if len(state.attempts) < len(self.modes):
            begun = state._replace(lease=len(state.attempts), attempts=(*state.attempts, Attempt(1)))
            yield f"attempt {len(begun.attempts)} {self.program[0].label}", begun
        for who, attempt in enumerate(state.attempts):
            name = f"attempt {who + 1}"
            if attempt.lives:
                yield f"{name}'s client crashes", state.change(who, attempt._replace(lives=False))
                if attempt.sent < 0:
                    yield self._client(state, who, attempt, name)
            if attempt.sent >= 0:
                yield from self._statement(state, who, attempt, name)
            if attempt.mutation:
                yield from self._mutation(state, who, attempt, name)
        if any(a.done >= 0 or a.read for a in state.attempts):
            yield "the server crashes", self._server_crashes(state)

    def _client(self, state: State, who: int, attempt: Attempt, name: str) -> tuple[str, State]:
        if attempt.place == len(self.program):
            return f"{name} is done", state.change(who, attempt.ended())
        act = self.program[attempt.place]
        following = attempt._replace(place=attempt.place + 1)
        if act.local:
            return f"{name} {act.label}", self._locally(state, who, attempt, act, following)
        if act.kind == "revoke" and not attempt.replaces:
            return f"{name} has nothing to revoke", state.change(who, following)
        if act.kind == "mutate" and not any(state.chunks[chunk] for chunk in act.chunks):
            return f"{name} has nothing to delete", state.change(who, following)
        if state.lease != who and Rule.RENEWAL not in self.off:
            return f"{name} sees that the lease is lost", state.change(who, attempt.ended())
        return f"{name} sends {act.label}", state.change(who, attempt._replace(sent=attempt.place))

    def _locally(self, state: State, who: int, attempt: Attempt, act: Act, following: Attempt) -> State:
        if act.reads and not self._holds(state, who, act):
            return state.change(who, attempt.ended())
        committed = state.ledger[1]
        if act.kind == "check":
            if committed and self.modes[who] == "fill":
                return state.change(who, attempt.ended())
            return state.change(who, following._replace(replaces=committed))
        expected = {"expect nothing": NOTHING, "expect whole": WHOLE}.get(act.kind, state.chunks)
        return state.change(who, following if state.chunks == expected else attempt.ended())

    def _holds(self, state: State, who: int, act: Act) -> bool:
        """Whether the table that the act reads is there."""
        ledger = act.kind in ("revoke", "commit")
        if (Rule.LEDGER_CONDITION if ledger else Rule.CONDITION) in self.off:
            return True
        holders = state.attempts if Rule.OWN_TABLES in self.off else (state.attempts[who],)
        return any(a.staging if act.reads == "staging" else a.fence for a in holders)

    def _statement(self, state: State, who: int, attempt: Attempt, name: str) -> Iterator[tuple[str, State]]:
        """It looks for its table once, when it begins. What reads none does all it does in one moment."""
        act = self.program[attempt.sent]
        if attempt.done < 0 and act.reads:
            if self._holds(state, who, act):
                yield f"{name}'s {act.label} begins", state.change(who, attempt._replace(done=0))
            else:
                yield f"{name}'s {act.label} finds its table gone", state.change(who, attempt.ended())
        elif not attempt.mutation:
            yield f"{name}'s {act.label} takes effect", self._effect(state, who, attempt, act)

    def _effect(self, state: State, who: int, attempt: Attempt, act: Act) -> State:
        went_on = attempt._replace(done=attempt.done + 1)
        if act.kind != "mutate" and went_on.done >= len(act.chunks):
            went_on = _answered(attempt)
        if act.kind == "insert":
            chunks = list(state.chunks)
            chunk = act.chunks[attempt.done]
            chunks[chunk] = min(chunks[chunk] + 1, MANY)
            return state._replace(chunks=tuple(chunks)).change(who, went_on)
        if act.kind in ("revoke", "commit"):
            row = (who, act.kind == "commit")
            return state._replace(ledger=max(state.ledger, row)).change(who, went_on)
        if act.kind == "mutate":
            return state.change(who, went_on._replace(mutation=act.chunks))
        if act.kind.startswith("create"):
            return state.change(who, went_on._replace(**{act.kind.split()[1]: True}))
        if act.kind == "drop own":
            return state.change(who, went_on._replace(fence=False, staging=False))
        return self._fence_off(state, who, act).change(who, went_on)

    def _fence_off(self, state: State, who: int, act: Act) -> State:
        """What a statement does to all other attempts, whoever they are."""
        for other, attempt in enumerate(state.attempts):
            if other == who:
                continue
            if act.kind == "drop all fences":
                attempt = attempt._replace(fence=False)
            elif act.kind == "drop all stagings":
                attempt = attempt._replace(staging=False)
            elif act.kind == "kill statements" and attempt.done >= 0:
                attempt = attempt.ended()
            elif act.kind == "kill mutations" and attempt.mutation:
                attempt = attempt.ended()._replace(mutation=(), read=False)
            state = state.change(other, attempt)
        return state

    def _mutation(self, state: State, who: int, attempt: Attempt, name: str) -> Iterator[tuple[str, State]]:
        """It goes on without its statement, and begins anew after a crash of the server."""
        if attempt.read:
            chunks = list(state.chunks)
            chunks[attempt.mutation[0]] = 0
            rest = attempt._replace(mutation=attempt.mutation[1:], read=len(attempt.mutation) > 1)
            if not rest.mutation and rest.done > 0:
                rest = _answered(rest)
            yield f"{name}'s mutation deletes a part", state._replace(chunks=tuple(chunks)).change(who, rest)
        elif self._holds(state, who, Act(TableLoad.DELETED, "", "mutate", reads="fence")):
            yield f"{name}'s mutation reads the fence", state.change(who, attempt._replace(read=True))

    def _server_crashes(self, state: State) -> State:
        for who, attempt in enumerate(state.attempts):
            if attempt.done >= 0 or attempt.read:
                attempt = (attempt.ended() if attempt.done >= 0 else attempt)._replace(read=False)
                state = state.change(who, attempt)
        return state
