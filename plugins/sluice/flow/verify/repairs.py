"""The commands that repair: exactly what a person types, or copies out of the answer of `sluice verify`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sluice.flow.verify.anomaly import Anomaly
from sluice.slices import Slice


@dataclass(frozen=True)
class Repairs:
    """Commands for one pipeline; `config` is its file where that is not in the folder of pipelines."""

    pipeline: str
    config: Path | None = None

    def fill(self, piece: Slice) -> str:
        """Lands and loads what is missing or stale."""
        return self.run([piece], "fill")

    def reload(self, piece: Slice) -> str:
        """Loads ClickHouse again from the lake."""
        return self.run([piece], "reload")

    def reland(self, piece: Slice) -> str:
        """Reads Kafka again with the stored boundaries, and replaces the slice everywhere."""
        return self.run([piece], "reland")

    def run(self, pieces: Sequence[Slice], mode: str) -> str:
        return self._words("run", self._range(pieces[0], pieces[-1]), "--mode", mode)

    def clean(self, piece: Slice | None = None) -> str:
        """Removes files that no manifest lists; without a slice wherever they are."""
        edges = self._range(piece, piece) if piece else ""
        return self._words("verify", edges, "--clean")

    def accept(self, piece: Slice) -> str:
        """Accepts fields that are missing since then."""
        return self._words("verify", self._range(piece, piece), "--accept")

    def _range(self, first: Slice, last: Slice) -> str:
        return f"--from {_instant(first.start)} --to {_instant(last.end)}"

    def _words(self, command: str, *words: str) -> str:
        config = f"--config {shlex.quote(str(self.config))}" if self.config else ""
        return " ".join(filter(None, ("sluice", command, self.pipeline, config, *words)))


def _instant(at: datetime) -> str:
    """To the minute. Every unit has its commands, also those that need none: strftime would be slow."""
    return f"{at.year:04}-{at.month:02}-{at.day:02}T{at.hour:02}:{at.minute:02}Z"


def commands(anomalies: Iterable[Anomaly]) -> list[str]:
    """Returns each command once, in an order that works: a `reland` also loads again, `--clean` is last, and
    a command of another kind comes behind it."""
    found = dict.fromkeys(anomaly.command for anomaly in anomalies if anomaly.command)
    order = ("--mode reland", "--mode fill", "--mode reload", "--clean")
    return sorted(found, key=lambda command: [*(part in command for part in order), True].index(True))
