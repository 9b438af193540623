"""Works below a folder by descriptors: each folder of a path is opened in the one above it, and no link is.

A path that is checked first and used then may lead elsewhere by then: somebody has exchanged a folder for a
link. A descriptor stays the folder that it was. The root itself may be a link, or lie behind one: whoever
runs Sluice has chosen it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import NamedTuple

from sluice.clients.lake.durable import make_folder, own_mode
from sluice.named_file import NotAFile

# A folder that is only on the way need not be readable.
_PASSED = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_HELD = 32  # descriptors of a listing: of the folders in which it is
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY)


class Place(NamedTuple):
    """A name in the folder that is open as `folder`; `path` is what errors call it."""

    folder: int
    name: str
    path: str

    @property
    def is_there(self) -> bool:
        try:
            self.status()
        except FileNotFoundError:
            return False
        return True

    def __enter__(self) -> Place:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        os.close(self.folder)
        _name(error, self)

    def beside(self, name: str) -> Place:
        return Place(self.folder, name, f"{os.path.dirname(self.path)}/{name}")

    def status(self) -> os.stat_result:
        """Raises OSError as `os.lstat`."""
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)


def place(root: str, key: str) -> Place:
    """Returns where `key` is below `root`, whether anything is there or not. As a context it is closed at the
    end, and what fails inside names the path.

    Raises NotAFile if a folder on the way is a link, FileNotFoundError and NotADirectoryError if it is none.
    """
    above, _, name = key.rpartition("/")
    return Place(open_folder(root, above), name, f"{root}/{key}")


@contextmanager
def named(found: Place) -> Iterator[None]:
    """Gives what fails with the name the whole path."""
    try:
        yield
    except OSError as error:
        _name(error, found)
        raise


def _name(error: BaseException | None, found: Place) -> None:
    if isinstance(error, OSError) and error.filename == found.name:
        error.filename = found.path


@contextmanager
def folder_of(root: str, key: str) -> Iterator[int]:
    """Yields the descriptor of a folder. Raises as `place`."""
    folder = open_folder(root, key)
    try:
        yield folder
    finally:
        os.close(folder)


def open_folder(root: str, key: str) -> int:
    """Returns the descriptor of the folder `key` below `root`, which is `root` itself if it is empty."""
    if not key:
        return os.open(root, _PASSED)
    first, *others = key.split("/")
    path = f"{root}/{first}"
    return _descended(_entered(None, path, path, _PASSED), path, others)


def _descended(folder: int, path: str, names: Sequence[str], flags: int = _PASSED) -> int:
    """Returns the descriptor of the last folder, and closes all others."""
    for name in names:
        path = f"{path}/{name}"
        above = folder
        try:
            folder = _entered(above, name, path, flags)
        finally:
            os.close(above)
    return folder


def _entered(above: int | None, name: str, path: str, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=above)
    except NotADirectoryError as error:
        error.filename = path
        with suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                raise NotAFile(mode, path, "folder") from error
        raise
    except OSError as error:
        error.filename = path
        raise


def made_folder(root: str, key: str, root_mode: int, mode: int, synced: bool = True) -> int:
    """Returns the descriptor of the folder `key`, and makes those that are not there, with modes that no
    umask changes; each new one's own entry survives a power cut, unless it need not (`synced`).

    Raises as `place`: FileNotFoundError if somebody removes a folder between its making and its use.
    """
    try:
        folder = os.open(root, _PASSED)
    except FileNotFoundError:
        make_folder(root, root_mode, synced)
        folder = os.open(root, _PASSED)
    path = root
    for name in key.split("/") if key else ():
        path = f"{path}/{name}"
        above = folder
        try:
            try:
                folder = _entered(above, name, path, _PASSED)
            except FileNotFoundError:
                folder = _made(above, name, path, mode, synced)
        finally:
            os.close(above)
    return folder


def _made(above: int, name: str, path: str, mode: int, synced: bool) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    folder = _entered(above, name, path, _READ)
    try:
        own_mode(folder, mode)
        if synced:
            sync_folder(above)
    except BaseException:
        os.close(folder)
        raise
    return folder


def sync_folder(folder: int) -> None:
    """Makes a folder's entries survive a power cut."""
    readable = os.open(".", _READ, dir_fd=folder)
    try:
        os.fsync(readable)
    finally:
        os.close(readable)


def tidy(root: str, key: str) -> None:
    """Removes the folder `key` and those above it, below `root`, as far as they are empty."""
    while key:
        with suppress(FileNotFoundError):
            try:
                with place(root, key) as emptied:
                    os.rmdir(emptied.name, dir_fd=emptied.folder)
            except OSError as error:
                if error.errno in _NOT_EMPTY:
                    return
                raise
        key = key.rpartition("/")[0]


class FoundFile(NamedTuple):
    """A regular file; `size` in bytes, `modified` in seconds since the epoch."""

    key: str
    size: int
    modified: float


def files(root: str, prefix: str, without: str = "") -> Iterator[FoundFile]:
    """Yields the regular files whose keys begin with `prefix`, in the order of their keys, but for those in
    the folder `without`. A folder is read when its turn comes.

    Raises NotAFile if a folder of `prefix` is a link.
    """
    above, slash, start = prefix.rpartition("/")
    try:
        listing = _Listing(root, above)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        waiting = listing.entries("", above + slash, start)
        while waiting:
            found = waiting.pop()
            if not found.key.endswith("/"):
                yield found
            elif found.key != without:
                waiting.extend(listing.entries(found.key[len(above + slash) : -1], found.key))
    finally:
        listing.close()


class _Listing:
    """The folders in which a listing is, open from the first to the last of them."""

    def __init__(self, root: str, above: str) -> None:
        with folder_of(root, above) as folder:
            self._open = [os.open(".", _READ, dir_fd=folder)]
        self._names: list[str] = []

    def close(self) -> None:
        for folder in self._open:
            os.close(folder)

    def entries(self, folder: str, above: str, start: str = "") -> list[FoundFile]:
        """Returns the files and folders that begin with `start`, the last key first: the key of a folder ends
        with `/`, and counts so. A name that is no UTF-8 is no key's."""
        try:
            opened = self._enter(folder.split("/") if folder else [])
        except (FileNotFoundError, NotADirectoryError):
            return []
        try:
            with os.scandir(opened) as entries:
                found = [
                    file
                    for entry in entries
                    if entry.name.startswith(start) and _is_text(entry.name)
                    for file in _found(entry, above)
                ]
        finally:
            if opened not in self._open:
                os.close(opened)
        found.sort(reverse=True)
        return found

    def _enter(self, names: list[str]) -> int:
        """Returns the descriptor of a folder. One that is deeper than `_HELD` is the caller's to close."""
        pairs = zip(names, self._names, strict=False)
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        while len(self._open) > same + 1:
            os.close(self._open.pop())
        self._names = names[:same]
        for name in names[same : _HELD - 1]:
            self._open.append(os.open(name, _READ | os.O_NOFOLLOW, dir_fd=self._open[-1]))
            self._names.append(name)
        deeper = names[len(self._names) :]
        return _descended(os.dup(self._open[-1]), "", deeper, _READ) if deeper else self._open[-1]


def _found(entry: os.DirEntry[str], above: str) -> Iterator[FoundFile]:
    if entry.is_dir(follow_symlinks=False):
        yield FoundFile(f"{above}{entry.name}/", 0, 0)
    else:
        with suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield FoundFile(above + entry.name, status.st_size, status.st_mtime)


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)
