"""docs/guide/airflow.md, typed as it stands: a block with a file's name is written, one of a shell is run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sluice.init.init import statements_in
from tests.support.documents import ROOT, Sample, samples

PAGE = "docs/guide/airflow.md"
BLOCKS = tuple(samples((ROOT / PAGE).read_text(encoding="utf-8")))
SECONDS = 300


@dataclass
class Reader:
    """Somebody who follows the page in `folder`. What a block exports holds for all that comes after.

    `places`: text of the page that stands for something of the reader's own, to what the reader writes.
    `sql`: runs a statement of a block.
    """

    folder: Path
    environment: dict[str, str]
    places: Mapping[str, str]
    sql: Callable[[str], object]
    done: list[Sample] = field(default_factory=list)

    def follow(self, section: str, folder: Path | None = None) -> list[str]:
        """Does each block of a section, and returns what each printed."""
        blocks = [block for block in BLOCKS if block.section == section]
        assert blocks, f"{PAGE} has no block in a section {section!r}"
        return [self.do(block, folder or self.folder) for block in blocks]

    def do(self, block: Sample, folder: Path) -> str:
        self.done.append(block)
        if block.language == "sql":
            for statement in statements_in(block.text):
                self.sql(statement)
            return ""
        if not block.file:
            assert block.language == "sh", f"{PAGE}: a block that is neither typed nor a file: {block.text}"
            return self.type(self._own(block.text), folder)
        path = folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_text(self._own(block.text))
        return ""

    def type(self, text: str, folder: Path | None = None) -> str:
        """Returns what was printed. Fails where a command does."""
        left = self.folder / ".environment"
        ran = subprocess.run(
            ["bash", "-ec", f"{text}\nenv -0 > '{left}'"],
            cwd=folder or self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert ran.returncode == 0, f"{text}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
        found = dict(line.split("=", 1) for line in left.read_text().split("\0") if line)
        self.environment.update({name: found[name] for name in found if name not in ("_", "PWD", "SHLVL")})
        return ran.stdout + ran.stderr

    def _own(self, text: str) -> str:
        for name, own in self.places.items():
            text = text.replace(name, own)
        return text

    @property
    def left_out(self) -> list[Sample]:
        return [block for block in BLOCKS if block not in self.done]


def unknown_places(places: Mapping[str, str]) -> list[str]:
    """Those that the page does not have (any more)."""
    text = "".join(block.text for block in BLOCKS)
    return [name for name in places if name not in text]


def clean_environment() -> dict[str, str]:
    """This machine's, with nothing of the checkout and of its stack."""
    foreign = ("PYTHON", "SLUICE", "AIRFLOW", "PYSPARK", "SPARK", "VIRTUAL_ENV", "PYTEST", "CLICKHOUSE")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
