"""Confines this process to folders, by Linux's Landlock (Linux 5.13, landlock(7)); it needs no rights.

What is not named can be neither read nor written any more, by this process or by a child of it, and no
program can be started. It holds for the calling thread and those that it starts: call it before there are
others.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_VERSION, _PATH_BENEATH, _NO_NEW_PRIVS = 1, 1, 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
# Rights that a kernel's Landlock knows, by its version: later ones are refused by it.
_KNOWN = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL = (1 << 16) - 1


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """Landlock's version in this kernel; 0 where there is none."""
    return max(0, ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION))


def confine(reads: Iterable[Path], writes: Iterable[Path]) -> bool:
    """Leaves only `reads` and `writes`; False, and nothing done, where the kernel has no Landlock.

    A path that is not there is left out. Raises OSError.
    """
    if not (abi := version()):
        return False
    rights = _KNOWN.get(abi, _ALL)
    rules = _call(_CREATE, ctypes.byref(ctypes.c_uint64(rights)), ctypes.c_size_t(8), 0)
    for path in reads:
        _allow(rules, path, _READ_FILE | _READ_DIR)
    for path in writes:
        _allow(rules, path, rights & ~_EXECUTE)
    if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl: no_new_privs")
    _call(_RESTRICT, rules, 0)
    os.close(rules)
    return True


def _allow(rules: int, path: Path, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        allowed = rights if path.is_dir() else rights & _FILE_RIGHTS
        _call(_ADD, rules, _PATH_BENEATH, ctypes.byref(_Rule(allowed, opened)), 0)
    finally:
        os.close(opened)


def _call(number: int, *arguments: object) -> int:
    answer = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return answer
