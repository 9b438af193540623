"""The lake as a local folder: an object is a file at its key's own path."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import cast

from sluice.clients.lake import beneath
from sluice.clients.lake.base import MOST_READ, Begun, Item, StoredObject, check_key
from sluice.clients.lake.beneath import Place
from sluice.clients.lake.durable import Modes, Syncs, explained, locked, own_mode, write
from sluice.config.pipeline import command_line
from sluice.named_file import opened, read_named

_OWN = ".sluice"
_WRITING = f"{_OWN}/writing"
_LOCKED = f"{_OWN}/locks"
_LOCKS = 256
_LEAVINGS_SECONDS = 7 * 24 * 3600
_CREATED_TOGETHER = 1000
_PLACING_TRIES = 100


@dataclass(frozen=True)
class FolderLake:
    """`root` is `<root>/<pipeline>`. Its `.sluice/` holds files being written, and lock files. `syncs`
    and `emptied`, folders that moves may have left empty: see `synced_at_end`. `config`: that of
    `command_line`.

    An object is a regular file in real folders. A link, pipe or device is in no listing, and where a key
    names one, every method raises LakeRefused; also if somebody puts it there meanwhile."""

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
        try:
            with self._at(key) as (folder, name, _):
                data = read_named(name, MOST_READ, links=False, folder=folder)
        except FileNotFoundError:
            return None
        return StoredObject(data, _version(data))

    def create(self, key: str, data: bytes) -> bool:
        synced = self._synced
        with explained(self.url), self._writing() as writing:
            with self._written(writing, key, data, synced) as written:
                return self._linked(written, key, data, synced)

    def create_each(self, objects: Iterable[tuple[str, bytes]]) -> Iterator[bool]:
        left = iter(objects)
        while part := list(islice(left, _CREATED_TOGETHER)):
            yield from self._created(part)

    def _created(self, objects: Sequence[tuple[str, bytes]]) -> Iterator[bool]:
        with explained(self.url), self._writing() as writing, ExitStack() as stack:
            with Syncs.of(self.root) as syncs:
                written = [
                    stack.enter_context(self._written(writing, key, data, syncs.due()))
                    for key, data in objects
                ]
            with Syncs.of(self.root) as syncs:
                for file, (key, data) in zip(written, objects, strict=True):
                    yield self._linked(file, key, data, syncs.due())

    @contextmanager
    def synced_at_end(self) -> Iterator[FolderLake]:
        emptied: set[str] = set()
        with explained(self.url), Syncs.of(self.root) as syncs:
            yield replace(self, syncs=syncs, emptied=emptied)
            # Once each, and not while folders are being made: an ext4 without a journal searches for an inode
            # past all that were freed in the last minutes (recently_deleted in its ialloc.c).
            for folder in sorted(emptied):
                beneath.tidy(str(self.root), folder)

    def replace(self, key: str, data: bytes, version: str) -> bool:
        with self._locked(key):
            stored = self.read(key)
            if stored is None or stored.version != version:
                return stored is not None and stored.data == data
            self.put(key, data)
            return True

    def put(self, key: str, data: bytes) -> None:
        synced = self._synced
        with explained(self.url), self._writing() as writing:
            with self._written(writing, key, data, synced) as written:
                self._placed(_rename, written, key, synced)

    def delete(self, keys: Iterable[str]) -> None:
        """Also removes folders that become empty, and what writers killed a week ago were writing."""
        for key in keys:
            with suppress(FileNotFoundError), self._at(key) as (folder, name, _):
                os.unlink(name, dir_fd=folder)
            with explained(self.url):
                beneath.tidy(str(self.root), _folder_of(key))
        with explained(self.url):
            self._remove_leavings()

    def list(self, prefix: str) -> Iterator[Item]:
        if "/" in prefix:
            check_key(self.url, _folder_of(prefix))
        with explained(self.url):
            for file in beneath.files(str(self.root), prefix, without=f"{_OWN}/"):
                yield Item(file.key, file.size, datetime.fromtimestamp(file.modified, UTC))

    def present(self, keys: Iterable[str]) -> Iterator[Item]:
        for key in sorted(set(keys)):
            if (status := self._status(key)) is not None:
                yield Item(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def size(self, key: str) -> int | None:
        status = self._status(key)
        return None if status is None else status.st_size

    def _status(self, key: str) -> os.stat_result | None:
        """Returns None where there is no object."""
        try:
            with self._at(key) as place:
                status = place.status()
        except FileNotFoundError:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def begin(self, key: str) -> Begun:
        with suppress(FileNotFoundError), self._at(key):
            pass
        with explained(self.url), self._writing() as new, beneath.named(new):
            return _BegunFile(self, new)

    def finish(self, key: str, begun: Begun) -> None:
        begun, synced = cast(_BegunFile, begun), self._synced
        with explained(self.url), self._writing() as new:
            own_mode(begun.descriptor, self._modes.file(key))
            os.fsync(begun.descriptor)
            self._placed(_rename, new.beside(begun.name), key, synced)
        begun.close()

    def move(self, source: str, destination: str) -> None:
        # No sync: a rename leaves the file in one of its two places, and moves are repeated. Syncing the
        # folders of a year's event hours would cost more than landing it.
        check_key(self.url, destination)
        try:
            with self._at(source) as old:
                self._placed(_rename, old, destination, synced=False)
        except FileNotFoundError:
            if self.size(destination) is None:
                raise
        if self.emptied is not None:
            self.emptied.add(_folder_of(source))
            return
        with explained(self.url):
            beneath.tidy(str(self.root), _folder_of(source))

    @contextmanager
    def local(self, key: str) -> Iterator[Path]:
        """The path is that of an open file, in this process only: whoever opens it gets that very file."""
        if self.size(key) is None:
            raise FileNotFoundError(f"{self.url}/{key}")
        with ExitStack() as stack:
            with self._at(key) as (folder, name, _):
                descriptor = stack.enter_context(opened(name, links=False, folder=folder))
            yield Path(f"/proc/self/fd/{descriptor}")

    def part(self, key: str, start: int, until: int) -> bytes:
        if start >= until:
            return b""
        with self._at(key) as (folder, name, _), opened(name, links=False, folder=folder) as descriptor:
            return os.pread(descriptor, until - start, start)

    @contextmanager
    def _at(self, key: str) -> Iterator[Place]:
        """Raises FileNotFoundError also where a file is in the place of a folder."""
        check_key(self.url, key)
        with explained(self.url):
            try:
                place = beneath.place(str(self.root), key)
            except NotADirectoryError as error:
                raise FileNotFoundError(f"{self.url}/{key}") from error
            with place:
                yield place

    @cached_property
    def _modes(self) -> Modes:
        return Modes.of(self.root)

    @contextmanager
    def _own_folder(self, key: str) -> Iterator[int]:
        modes = self._modes
        folder = beneath.made_folder(str(self.root), key, modes.folder, modes.private)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        check_key(self.url, key)
        stripe = f"{hashlib.sha256(key.encode()).digest()[0] % _LOCKS:02x}"
        with explained(self.url), self._own_folder(_LOCKED) as folder:
            lock = Place(folder, stripe, f"{self.root}/{_LOCKED}/{stripe}")
            with beneath.named(lock), locked(stripe, self._modes.private & 0o666, folder):
                yield

    @contextmanager
    def _writing(self) -> Iterator[Place]:
        """Yields a new name in the folder of files that are being written."""
        with self._own_folder(_WRITING) as folder:
            name = uuid.uuid4().hex
            yield Place(folder, name, f"{self.root}/{_WRITING}/{name}")

    def _placed(self, act: _Act, source: Place, destination: str, synced: bool) -> None:
        """Does `act`, making the folders that the destination lacks. It survives a power cut, unless it need
        not (`synced`).

        Raises FileNotFoundError when `source` is gone. A program that removes empty folders may remove one
        between its making and its use: then both are done again.
        """
        check_key(self.url, destination)
        root, above, mode = str(self.root), _folder_of(destination), self._modes.folder
        for _ in range(_PLACING_TRIES):
            try:
                with beneath.place(root, destination) as place:
                    act(source, place)
                    if synced:
                        beneath.sync_folder(place.folder)
                return
            except FileNotFoundError:
                if not source.is_there:
                    raise
            with suppress(FileNotFoundError):
                os.close(beneath.made_folder(root, above, mode, mode, synced))
        raise OSError(errno.EBUSY, "the folder is removed as often as it is made", f"{root}/{above}")

    @property
    def _synced(self) -> bool:
        """Whether the next write is to be made durable by itself."""
        return self.syncs is None or self.syncs.due()

    @contextmanager
    def _written(self, writing: Place, key: str, data: bytes, synced: bool) -> Iterator[Place]:
        file = writing.beside(uuid.uuid4().hex)
        try:
            with beneath.named(file):
                write(file.name, data, synced, self._modes.file(key), file.folder)
            yield file
        finally:
            with suppress(FileNotFoundError):
                os.unlink(file.name, dir_fd=file.folder)

    def _linked(self, written: Place, key: str, data: bytes, synced: bool) -> bool:
        try:
            self._placed(_link, written, key, synced)
        except FileExistsError:
            stored = self.read(key)
            return stored is not None and stored.data == data
        return True

    def _remove_leavings(self) -> None:
        oldest = time.time() - _LEAVINGS_SECONDS
        for file in beneath.files(str(self.root), f"{_WRITING}/"):
            if file.modified < oldest:
                self._drop(file.key)

    def _drop(self, path: str) -> None:
        """Removes a file of Sluice's own, if it is there."""
        with suppress(FileNotFoundError), beneath.place(str(self.root), path) as dropped:
            os.unlink(dropped.name, dir_fd=dropped.folder)


class _BegunFile(Begun):
    """It stays open until it is finished or discarded: nobody can put another file in its place."""

    def __init__(self, lake: FolderLake, new: Place) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._lake, self.name = lake, new.name
        descriptor = os.open(new.name, flags, 0o600, dir_fd=new.folder)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        super().__init__(Path(f"/proc/self/fd/{self.descriptor}"), os.path.dirname(new.path))

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        if not self._file.closed:
            self._file.close()
            with explained(self._lake.url):
                self._lake._drop(f"{_WRITING}/{self.name}")


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_Act = Callable[[Place, Place], None]


def _rename(source: Place, destination: Place) -> None:
    os.replace(source.name, destination.name, src_dir_fd=source.folder, dst_dir_fd=destination.folder)


def _link(source: Place, destination: Place) -> None:
    names = source.name, destination.name
    os.link(*names, src_dir_fd=source.folder, dst_dir_fd=destination.folder, follow_symlinks=False)


def _folder_of(key: str) -> str:
    return key.rpartition("/")[0]
