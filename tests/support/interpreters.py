"""The Python interpreters of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def interpreter(version: str) -> Path | None:
    """Returns the program of Python `version`, such as 3.12, or None where there is none.

    Searched are PATH, and what pyenv and uv have installed; of pyenv's shims only those that run.
    """
    return next((path for path in _candidates(version) if _version(path) == version), None)


def _candidates(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    home = Path.home()
    yield from (Path(folder, f"python{version}") for folder in os.get_exec_path())
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}*/bin/python"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    yield from sorted(uv.glob(f"cpython-{version}*/bin/python{version}"))


def _version(program: Path) -> str:
    """Empty for what is no interpreter that runs."""
    if not program.is_file():
        return ""
    return subprocess.run([program, "-c", _VERSION], capture_output=True, text=True).stdout.strip()
