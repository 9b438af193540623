"""A model of the landing's commit and move: one unit, a file an attempt; fills, relands, remakes, erasures.

Between any two of its actions a lander may crash, or sleep while others act; the answer to a conditional
write may be lost. With `slow_copies` a move is a copy and a delete, as in S3; else one rename.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

Manifest = tuple[int, int]
"""(generation, the lander whose files it names)"""


class Rule(StrEnum):
    CREATE = "the manifest is created if absent"
    COMPARE_AND_SET = "it is replaced by compare-and-set"
    ASK_WHO_WON = "a refused write is unknown: the manifest says who won"
    LOOK_BACK = "a refused reland whose files have left its attempt has won before"
    FINISH_FIRST = "reland finishes the old manifest's move first"
    NOT_DELETE = "reland moves what is left of the old attempt, and does not delete it"
    COPY_FIRST = "the old manifest is copied before it is replaced"
    MARK_NAMES = "_SUCCESS names the manifest that it is of"
    MARK_COMPARED = "_SUCCESS is not written over that of a later manifest"
    MARK_LAST = "_SUCCESS is written after older files are removed"
    MADE_OF = "a remake replaces only the manifest whose files it has read"
    KEEP = "of the generation before those files stay that the manifest names, too"


class Lander(NamedTuple):
    """`at` is its next action. It moves the files of `what`, and goes on with `then`; `old` is replaced. A
    remake's file is made of the one of `made_of`."""

    at: str = "look"
    what: Manifest | None = None
    then: str = ""
    old: Manifest | None = None
    made_of: Manifest | None = None


class State(NamedTuple):
    """`attempts`: whose file is still in its attempt; `files`: (generation, whose) at its final name.
    `stale`: a manifest was replaced by one that was made of another. `kept`: a file of the first generation,
    which an erasure keeps under its name, is there; `naming`: the generations whose manifests name it."""

    manifest: Manifest | None
    mark: Manifest | None
    copies: frozenset[int]
    attempts: frozenset[int]
    files: frozenset[Manifest]
    landers: tuple[Lander, ...]
    stale: bool = False
    kept: bool = False
    naming: frozenset[int] = frozenset()

    def lander(self, who: int, lander: Lander, **changes: object) -> State:
        if lander.at in ENDS:
            lander = Lander(lander.at)
        landers = (*self.landers[:who], lander, *self.landers[who + 1 :])
        return self._replace(landers=landers, **changes)


ENDS = ("done", "crashed", "false alarm")
_OUT_OF_LAKE = ("remake", "erase")


def start(landers: int) -> State:
    return State(None, None, frozenset(), frozenset(), frozenset(), (Lander(),) * landers)


def start_landed(landers: int) -> State:
    """What somebody else has landed, and moved, is there."""
    first = (1, landers)
    one = frozenset({1})
    return start(landers)._replace(
        manifest=first, mark=first, files=frozenset({first}), kept=True, naming=one
    )


def lost(state: State) -> bool:
    """A file of the committed manifest is nowhere."""
    found = state.manifest
    if found is not None and found[0] in state.naming and not state.kept:
        return True
    return found is not None and found[1] not in state.attempts and found not in state.files


def mixed(state: State) -> bool:
    """The slice says that it is complete, and shows other files than its manifest's."""
    if state.manifest is None or state.mark != state.manifest:
        return False
    return state.files != {state.manifest} or (state.kept and state.manifest[0] not in state.naming)


def unmarked(state: State) -> bool:
    """All have ended well, and the slice does not say that it is complete."""
    return state.mark != state.manifest and all(lander.at == "done" for lander in state.landers)


def alarmed(state: State) -> bool:
    """A lander says that somebody has deleted a file, which nobody has."""
    return any(lander.at == "false alarm" for lander in state.landers)


class Model:
    def __init__(
        self, modes: tuple[str, ...], off: frozenset[Rule] = frozenset(), slow_copies: bool = False
    ) -> None:
        self.modes, self.off, self.slow_copies = modes, off, slow_copies

    def moves(self, state: State) -> Iterator[tuple[str, State]]:
        for who, lander in enumerate(state.landers):
            if lander.at in ENDS:
                continue
            name = f"lander {who + 1} ({self.modes[who]})"
            yield f"{name} crashes", state.lander(who, Lander("crashed"))
            act = getattr(self, "_" + lander.at.replace(" ", "_"))
            for label, after in act(state, who, lander):
                yield f"{name} {label}", after

    def _look(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        following = "sweep" if self.modes[who] == "fill" else "write"
        if state.manifest is None:
            yield "finds no manifest", state.lander(who, Lander("write"))
        elif self.modes[who] in _OUT_OF_LAKE:
            after = state.lander(who, Lander("compare mark", state.manifest, "read files", state.manifest))
            yield f"reads manifest {state.manifest}", after
        else:
            yield f"reads manifest {state.manifest}", self._move_first(state, who, following)

    def _move_first(self, state: State, who: int, then: str, old: Manifest | None = None) -> State:
        return state.lander(who, Lander("compare mark", state.manifest, then, old))

    def _write(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        yield "writes its files", state.lander(who, Lander("create"), attempts=state.attempts | {who})

    def _read_files(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        old = lander.old
        assert old is not None
        if old in state.files:
            then = Lander("compare mark", old, "compare", old, made_of=old)
            yield f"reads the file of {old}", state.lander(who, then, attempts=state.attempts | {who})
        else:
            yield f"finds no file of {old}", state.lander(who, Lander("done"))

    def _create(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        if state.manifest is None or Rule.CREATE in self.off:
            yield from self._written(state, who, (1, who), lander)
        elif Rule.ASK_WHO_WON in self.off and self.modes[who] == "fill":
            yield "is refused", self._throw_away(state, who)
        else:
            yield "is refused", state.lander(who, Lander("read back"))

    def _written(self, state: State, who: int, mine: Manifest, lander: Lander) -> Iterator[tuple[str, State]]:
        """Its answer may be lost: the retry is refused, and only who reads back knows better."""
        stale = lander.made_of is not None and lander.made_of != state.manifest
        written = state._replace(manifest=mine, stale=state.stale or stale)
        if self.modes[who] == "erase" and lander.made_of is not None and lander.made_of[0] in state.naming:
            written = written._replace(naming=state.naming | {mine[0]})
        if Rule.COPY_FIRST in self.off and lander.old is not None:
            yield f"writes manifest {mine}", written.lander(who, Lander("copy", old=lander.old))
        else:
            yield f"writes manifest {mine}", self._move_first(written, who, "sweep")
        if Rule.ASK_WHO_WON in self.off:
            yield f"writes manifest {mine}, and hears no", self._throw_away(written, who)
        else:
            yield f"writes manifest {mine}, and hears no", written.lander(who, Lander("read back"))

    def _throw_away(self, state: State, who: int) -> State:
        return state.lander(who, Lander("done"), attempts=state.attempts - {who})

    def _read_back(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        """The manifest that stands: its own, another's to go on with, or one to replace."""
        assert state.manifest is not None
        used = who not in state.attempts and Rule.LOOK_BACK not in self.off
        old = Lander("compare", old=state.manifest)
        if self.modes[who] in ("fill", *_OUT_OF_LAKE) or state.manifest[1] == who or used:
            yield f"reads back {state.manifest}", self._move_first(state, who, "sweep")
        elif Rule.FINISH_FIRST in self.off:
            yield f"reads the old {state.manifest}", state.lander(who, old)
        elif Rule.NOT_DELETE in self.off:
            after = state.lander(who, old, attempts=state.attempts - {state.manifest[1]})
            yield f"deletes what is left of {state.manifest}'s attempt", after
        else:
            after = self._move_first(state, who, "compare", state.manifest)
            yield f"reads the old {state.manifest}", after

    def _compare(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        if state.manifest != lander.old and Rule.MADE_OF in self.off and lander.made_of is not None:
            after = lander._replace(
                at="compare mark", what=state.manifest, then="compare", old=state.manifest
            )
            yield "sees that it was replaced, and replaces that", state.lander(who, after)
        elif state.manifest != lander.old:
            at = "create" if self.modes[who] not in _OUT_OF_LAKE else "read back"
            yield "sees that it was replaced", state.lander(who, Lander(at))
        else:
            at = "replace" if Rule.COPY_FIRST in self.off else "copy"
            yield "sees that it stands", state.lander(who, lander._replace(at=at))

    def _copy(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        assert lander.old is not None
        copied = state._replace(copies=state.copies | {lander.old[0]})
        if Rule.COPY_FIRST in self.off:
            yield "copies the old manifest", self._move_first(copied, who, "sweep")
        else:
            yield "copies the old manifest", copied.lander(who, lander._replace(at="replace"))

    def _replace(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        assert lander.old is not None
        if state.manifest == lander.old or Rule.COMPARE_AND_SET in self.off:
            yield from self._written(state, who, (lander.old[0] + 1, who), lander)
        else:
            at = "create" if self.modes[who] not in _OUT_OF_LAKE else "read back"
            yield "is refused", state.lander(who, Lander(at))

    def _compare_mark(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        moved = state.mark == lander.what if Rule.MARK_NAMES not in self.off else state.mark is not None
        at = lander.then if moved else "move"
        yield f"reads the mark {state.mark}", state.lander(who, lander._replace(at=at))

    def _move(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        assert lander.what is not None
        generation, whose = lander.what
        following = lander._replace(at="mark" if Rule.MARK_LAST in self.off else "remove")
        if whose in state.attempts and self.slow_copies:
            yield "begins to copy the file", state.lander(who, lander._replace(at="end copy"))
        elif whose in state.attempts:
            others = {file for file in state.files if file[0] != generation}
            files, attempts = frozenset(others | {lander.what}), state.attempts - {whose}
            yield "moves the file", state.lander(who, following, files=files, attempts=attempts)
        elif any(file[0] == generation for file in state.files):
            yield "finds the file moved", state.lander(who, following)
        elif state.manifest == lander.what:
            yield "finds no file", state.lander(who, Lander("false alarm"))
        else:
            yield f"finds {lander.what} replaced", state.lander(who, following)

    def _end_copy(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        assert lander.what is not None
        others = {file for file in state.files if file[0] != lander.what[0]}
        after = state.lander(
            who, lander._replace(at="delete source"), files=frozenset(others | {lander.what})
        )
        yield "ends its copy", after

    def _delete_source(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        assert lander.what is not None
        following = lander._replace(at="mark" if Rule.MARK_LAST in self.off else "remove")
        yield "deletes the source", state.lander(who, following, attempts=state.attempts - {lander.what[1]})

    def _remove(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        assert lander.what is not None
        before = lander.what[0] - 1
        files = frozenset(f for f in state.files if f[0] != before or before not in state.copies)
        at = lander.then if Rule.MARK_LAST in self.off else "mark"
        names = lander.what[0] in state.naming and Rule.KEEP not in self.off
        gone = before in state.copies and before in state.naming and not names
        kept = state.kept and not gone
        yield "removes older files", state.lander(who, lander._replace(at=at), files=files, kept=kept)

    def _mark(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        at = "remove" if Rule.MARK_LAST in self.off else lander.then
        replaced = state.mark is not None and state.manifest != lander.what
        mark = state.mark if replaced and Rule.MARK_COMPARED not in self.off else lander.what
        yield f"marks {lander.what}", state.lander(who, lander._replace(at=at), mark=mark)

    def _sweep(self, state: State, who: int, lander: Lander) -> Iterator[tuple[str, State]]:
        yield "removes its attempt", state.lander(who, Lander("done"), attempts=state.attempts - {who})
