"""The one small interface through which everything meets the lake.

Keys are relative to `<root>/<pipeline>/`, with `/` between parts. An object is whole or absent: no reader
ever sees half of one. `create` and `replace` are the conditional writes that manifests, boundaries and
leases are built on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from sluice.errors import LakeRefused


@dataclass(frozen=True)
class StoredObject:
    """An object's bytes and the version that `replace` compares."""

    data: bytes
    version: str


@dataclass(frozen=True)
class Item:
    """One object of a listing; `size` in bytes, `modified` in UTC by the lake's own clock."""

    key: str
    size: int
    modified: datetime


MOST_READ = 256 << 20
"""How many bytes an object has at most that is read as a whole."""
TOO_LONG = "nothing that Sluice writes is so long: move it away"


# Empty parts, `.` and `..`, the folder that a lake has for itself, and letters that no name may have.
_NO_KEY = re.compile("(^|/)\\.{0,2}(/|$)|^\\.sluice(/|$)|[\\0\ud800-\udfff]")


def check_key(url: str, key: str) -> None:
    """Raises LakeRefused for a text that is no key."""
    if _NO_KEY.search(key):
        raise LakeRefused(
            url,
            f"{key[:200]!a} is not a key of the lake",
            "correct the file that names it, or restore it",
        )


class Begun:
    """A file to write the bytes of a future object to, by its `path`. `folder` is what errors of its disk
    call the place."""

    def __init__(self, path: Path, folder: str | None = None) -> None:
        self.path, self.folder = path, folder or str(path.parent)

    def discard(self) -> None:
        """Removes what `finish` has not made an object."""
        self.path.unlink(missing_ok=True)


class Located(Protocol):
    @property
    def url(self) -> str: ...


class OfPipeline(Protocol):
    """A lake knows whose it is, and so does whoever has one: errors print whole commands."""

    @property
    def pipeline(self) -> str: ...

    def command(self, command: str, *words: str) -> str:
        """Returns a `sluice` command on the pipeline whose lake it is, exactly as a shell takes it."""


class Files(Located, Protocol):
    """As much of a lake as reading its files needs."""

    def local(self, key: str) -> AbstractContextManager[Path]:
        """Returns the object as a local file while the context lasts. Raises FileNotFoundError when
        absent."""


class Parts(Located, Protocol):
    """As much of a lake as reading some bytes of its files needs."""

    def part(self, key: str, start: int, until: int) -> bytes:
        """Returns the object's bytes `[start, until)`, fewer where it ends before; none of an empty range, of
        which nothing is read. Raises FileNotFoundError when absent."""


class Objects(Located, Protocol):
    """As much of a lake as the boundary log needs."""

    def read(self, key: str) -> StoredObject | None:
        """Returns the object, or None when there is none. Raises LakeRefused for more than MOST_READ."""

    def create(self, key: str, data: bytes) -> bool:
        """Writes `data` if the key is absent. False when another writer's bytes are there.

        `data` must be unique to its writer: after a refusal the object is read back, and equal bytes
        mean that this very call had won and only its answer was lost.
        """

    def put(self, key: str, data: bytes) -> None:
        """Writes without a condition: for objects that any writer would write alike, or only this one."""


class Lake(Objects, Files, Parts, OfPipeline, Protocol):
    """Every method raises LakeUnavailable when the store does not answer."""

    def create_each(self, objects: Iterable[tuple[str, bytes]]) -> Iterator[bool]:
        """Creates each (key, data) in turn, as the answers are taken; each object's bytes are safe
        before it is visible. Objects that the caller has not come to are not written."""

    def replace(self, key: str, data: bytes, version: str) -> bool:
        """Compare-and-set: writes `data` if the object still has `version`. Lost answers as in `create`."""

    def synced_at_end(self) -> AbstractContextManager[Lake]:
        """This lake, for many writes and moves: a kill of the process takes none of them back, but only when
        the context ends without an error is what was written safe from a power cut, and are folders gone that
        moves have emptied."""

    def delete(self, keys: Iterable[str]) -> None:
        """Removes the objects; those already gone are no error."""

    def list(self, prefix: str) -> Iterator[Item]:
        """Yields every object whose key starts with `prefix`, in the keys' order."""

    def present(self, keys: Iterable[str]) -> Iterator[Item]:
        """Yields those of the keys that are there, each once, in the keys' order.

        A store may list all that lies between the first and the last of them: ask for neighbours.
        """

    def size(self, key: str) -> int | None:
        """Returns the bytes of the object, or None when there is none."""

    def begin(self, key: str) -> Begun:
        """Returns a local file to write the future object's bytes to; `finish` makes it the object."""

    def finish(self, key: str, begun: Begun) -> None:
        """Hands the file that `begin` gave over to the lake, durably; it is used up.

        The key is this writer's own: no other writes to it.
        """

    def move(self, source: str, destination: str) -> None:
        """Moves an object. Repeatable: with the source gone and the destination there, it is done.

        Raises FileNotFoundError when neither is there.
        """


# Changes an object of the lake that several write to.
def update_object(lake: Lake, key: str, change: Callable[[bytes | None], bytes]) -> None:
    """Changes an object by compare-and-set; `change` gets its content, None where there is none yet."""
    while True:
        stored = lake.read(key)
        data = change(None if stored is None else stored.data)
        if stored is None:
            if lake.create(key, data):
                return
        elif data == stored.data or lake.replace(key, data, stored.version):
            return
