"""The lake as a local folder: an object is a file at its key's own path."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path

from sluice.clients.lake.base import MOST_READ, Item, StoredObject
from sluice.clients.lake.durable import (
    Modes,
    Syncs,
    explained,
    locked,
    make_folder,
    own_mode,
    part_of,
    place,
    real_folders,
    tidy,
    write,
)
from sluice.config.command_line import command_line
from sluice.named_file import opened, read_named

_OWN = ".sluice"
_NO_KEY = re.compile(r"(^|/)\.{0,2}(/|$)|^\.sluice(/|$)")
_LOCKS = 256
_LEAVINGS_SECONDS = 7 * 24 * 3600
_CREATED_TOGETHER = 1000


@dataclass(frozen=True)
class FolderLake:
    """`root` is `<root>/<pipeline>`. Its `.sluice/` holds files being written, and lock files. `syncs`
    and `emptied`, folders that moves may have left empty: see `synced_at_end`. `config`: that of
    `command_line`.

    An object is a regular file in real folders. A link, pipe or device is in no listing, and where a key
    names one, every method raises LakeRefused."""

    root: Path
    syncs: Syncs | None = field(default=None, compare=False, repr=False)
    emptied: set[str] | None = field(default=None, compare=False, repr=False)
    config: Path | None = field(default=None, compare=False, repr=False)

    @property
    def url(self) -> str:
        return f"file://{self.root}"

    @property
    def pipeline(self) -> str:
        return self.root.name

    def command(self, command: str, *words: str) -> str:
        return command_line(self.pipeline, self.config, command, *words)

    def read(self, key: str) -> StoredObject | None:
        with explained(self.url):
            try:
                data = read_named(self._name(key), MOST_READ, links=False)
            except (FileNotFoundError, NotADirectoryError):
                return None
            return StoredObject(data, _version(data))

    def create(self, key: str, data: bytes) -> bool:
        synced = self._synced
        with explained(self.url), self._written(key, data, synced) as written:
            return self._linked(written, key, data, synced)

    def create_each(self, objects: Iterable[tuple[str, bytes]]) -> Iterator[bool]:
        left = iter(objects)
        while part := list(islice(left, _CREATED_TOGETHER)):
            yield from self._created(part)

    def _created(self, objects: Sequence[tuple[str, bytes]]) -> Iterator[bool]:
        with explained(self.url), ExitStack() as stack:
            with Syncs.of(self.root) as syncs:
                written = [
                    stack.enter_context(self._written(key, data, syncs.due())) for key, data in objects
                ]
            with Syncs.of(self.root) as syncs:
                for name, (key, data) in zip(written, objects, strict=True):
                    yield self._linked(name, key, data, syncs.due())

    @contextmanager
    def synced_at_end(self) -> Iterator[FolderLake]:
        emptied: set[str] = set()
        with explained(self.url), Syncs.of(self.root) as syncs:
            yield replace(self, syncs=syncs, emptied=emptied)
            # Once each, and not while folders are being made: an ext4 without a journal searches for an inode
            # past all that were freed in the last minutes (recently_deleted in its ialloc.c).
            for folder in sorted(emptied):
                tidy(folder, str(self.root))

    def replace(self, key: str, data: bytes, version: str) -> bool:
        with explained(self.url), self._locked(key):
            stored = self.read(key)
            if stored is None or stored.version != version:
                return stored is not None and stored.data == data
            self.put(key, data)
            return True

    def put(self, key: str, data: bytes) -> None:
        name, synced = self._name(key), self._synced
        with explained(self.url), self._written(key, data, synced) as written:
            self._place(lambda: os.replace(written, name), written, name, synced)

    def delete(self, keys: Iterable[str]) -> None:
        """Also removes folders that become empty, and what writers killed a week ago were writing."""
        with explained(self.url):
            for key in keys:
                name = self._name(key)
                with suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(name)
                tidy(os.path.dirname(name), str(self.root))
            self._remove_leavings()

    def list(self, prefix: str) -> Iterator[Item]:
        folder, slash, start = prefix.rpartition("/")
        with explained(self.url):
            above = self._name(folder) if folder else str(self.root)
            real_folders(str(self.root), prefix)
            yield from _walk(above, folder + slash, start)

    def present(self, keys: Iterable[str]) -> Iterator[Item]:
        with explained(self.url):
            for key in sorted(set(keys)):
                with suppress(FileNotFoundError, NotADirectoryError):
                    file_status = os.lstat(self._name(key))
                    if stat.S_ISREG(file_status.st_mode):
                        yield _item(key, file_status)

    def size(self, key: str) -> int | None:
        with explained(self.url):
            try:
                file_status = os.lstat(self._name(key))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return file_status.st_size if stat.S_ISREG(file_status.st_mode) else None

    def begin(self, key: str) -> Path:
        self._name(key)
        with explained(self.url):
            return Path(self._new_name())

    def finish(self, key: str, path: Path) -> None:
        destination, synced = self._name(key), self._synced
        with explained(self.url):
            with opened(path, links=False) as descriptor:
                own_mode(descriptor, self._modes.file(key))
                os.fsync(descriptor)
            self._place(lambda: os.replace(path, destination), str(path), destination, synced)

    def move(self, source: str, destination: str) -> None:
        # No sync: a rename leaves the file in one of its two places, and moves are repeated. Syncing the
        # folders of a year's event hours would cost more than landing it.
        old, new = self._name(source), self._name(destination)
        with explained(self.url):
            try:
                self._place(lambda: os.replace(old, new), old, new, synced=False)
            except FileNotFoundError:
                if not os.path.isfile(new):
                    raise
            if self.emptied is None:
                tidy(os.path.dirname(old), str(self.root))
            else:
                self.emptied.add(os.path.dirname(old))

    @contextmanager
    def local(self, key: str) -> Iterator[Path]:
        if self.size(key) is None:
            raise FileNotFoundError(f"{self.url}/{key}")
        yield Path(self._name(key))

    def part(self, key: str, start: int, until: int) -> bytes:
        if start >= until:
            return b""
        with explained(self.url):
            try:
                return part_of(self._name(key), start, until)
            except NotADirectoryError as error:
                raise FileNotFoundError(f"{self.url}/{key}") from error

    def _name(self, key: str) -> str:
        """Returns the file's, as text: a year's moves would spend half of their time in pathlib."""
        if _NO_KEY.search(key):
            raise ValueError(f"{key!r} is not a key of the lake")
        with explained(self.url):
            real_folders(str(self.root), key)
        return f"{self.root}/{key}"

    @cached_property
    def _modes(self) -> Modes:
        return Modes.of(self.root)

    def _own_folder(self, name: str) -> str:
        folder = f"{self.root}/{_OWN}/{name}"
        real_folders(str(self.root), f"{_OWN}/{name}/")
        make_folder(str(self.root), self._modes.folder)
        make_folder(folder, self._modes.private)
        return folder

    def _locked(self, key: str) -> AbstractContextManager[None]:
        stripe = hashlib.sha256(key.encode()).digest()[0] % _LOCKS
        return locked(Path(self._own_folder("locks"), f"{stripe:02x}"), self._modes.private & 0o666)

    def _new_name(self) -> str:
        return f"{self._own_folder('writing')}/{uuid.uuid4().hex}"

    def _place(self, act: Callable[[], None], source: str, destination: str, synced: bool) -> None:
        place(act, source, destination, self._modes.folder, synced)

    @property
    def _synced(self) -> bool:
        """Whether the next write is to be made durable by itself."""
        return self.syncs is None or self.syncs.due()

    @contextmanager
    def _written(self, key: str, data: bytes, synced: bool) -> Iterator[str]:
        name = self._new_name()
        try:
            write(name, data, synced, self._modes.file(key))
            yield name
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)

    def _linked(self, written: str, key: str, data: bytes, synced: bool) -> bool:
        name = self._name(key)
        try:
            self._place(lambda: os.link(written, name), written, name, synced)
        except FileExistsError:
            stored = self.read(key)
            return stored is not None and stored.data == data
        return True

    def _remove_leavings(self) -> None:
        oldest = time.time() - _LEAVINGS_SECONDS
        real_folders(str(self.root), f"{_OWN}/writing/")
        for item in _walk(f"{self.root}/{_OWN}/writing", "", ""):
            if item.modified.timestamp() < oldest:
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.root}/{_OWN}/writing/{item.key}")


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _walk(folder: str, above: str, start: str) -> Iterator[Item]:
    """Yields the regular files below `folder` whose names begin with `start`, in the order of their keys."""
    waiting = [(name, above + name, path) for name, path in _entries(folder, start)]
    while waiting:
        name, key, path = waiting.pop()
        if key == f"{_OWN}/":
            continue
        if name.endswith("/"):
            waiting.extend((below, key + below, inside) for below, inside in _entries(path))
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            file_status = os.lstat(path)
            if stat.S_ISREG(file_status.st_mode):
                yield _item(key, file_status)


def _entries(folder: str, start: str = "") -> list[tuple[str, str]]:
    """Returns name and path of the folder's entries that begin with `start`, the last key first: the name of
    a folder ends with `/`, and counts so. A name that is no UTF-8 is no key's."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (
                    (e.name + "/" if e.is_dir(follow_symlinks=False) else e.name, e.path)
                    for e in entries
                    if e.name.startswith(start) and _is_text(e.name)
                ),
                reverse=True,
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _item(key: str, file_status: os.stat_result) -> Item:
    return Item(key, file_status.st_size, datetime.fromtimestamp(file_status.st_mtime, UTC))
