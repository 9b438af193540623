"""Verdicts kept between runs, so that a run that was stopped goes on.

A killed mutant stays killed while the test that killed it stands as it was; a survivor is judged again
when any of its tests changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

from tests.mutants.judge import KILLED, Verdict
from tests.mutants.mutate import Mutant
from tests.mutants.rooms import ROOT, Room

STORE = ROOT / "var/mutants/verdicts.jsonl"


class Verdicts:
    def __init__(self, store: Path = STORE) -> None:
        self._store = store
        self._known: dict[str, dict] = {}
        if store.exists():
            for line in store.read_text().splitlines():
                said = json.loads(line)
                self._known[said["mutant"]] = said

    def get(self, room: Room, mutant: Mutant) -> Verdict | None:
        said = self._known.get(_name(mutant))
        if said is None or said["proof"] != _proof(room, said["outcome"], said["by"]):
            return None
        return Verdict(said["outcome"], said["by"], said["seconds"])

    def by(self, mutant: Mutant) -> str:
        """The test that killed it before, whatever it says today."""
        return self._known.get(_name(mutant), {}).get("by", "")

    def put(self, room: Room, mutant: Mutant, verdict: Verdict) -> None:
        said = {"mutant": _name(mutant), "outcome": verdict.outcome, "by": verdict.by}
        said |= {"seconds": round(verdict.seconds, 2), "proof": _proof(room, verdict.outcome, verdict.by)}
        self._known[said["mutant"]] = said
        self._store.parent.mkdir(parents=True, exist_ok=True)
        with self._store.open("a") as file:
            file.write(json.dumps(said) + "\n")


def _name(mutant: Mutant) -> str:
    """Of the whole mutated source: another change in the file makes another mutant."""
    return hashlib.sha256(f"{mutant.key}\n{mutant.source}".encode()).hexdigest()[:24]


def _proof(room: Room, outcome: str, by: str) -> str:
    if outcome == KILLED and by:
        file, _, test = by.partition("::")
        return _digest(_functions(file).get(test.partition("[")[0].rpartition("::")[2], ""))
    return _digest("".join((ROOT / file).read_text() for file in room.tests))


@cache
def _functions(file: str) -> dict[str, str]:
    if not (ROOT / file).exists():
        return {}
    source = (ROOT / file).read_text()
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.dump(node) for node in nodes}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
