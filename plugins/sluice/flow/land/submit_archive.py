"""The library as one archive that spark-submit sends to Spark's workers (`--py-files`).

The same sources give the same bytes: entries are sorted, dated alike and not compressed, for what a
compressor makes depends on its version.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from pathlib import Path

from sluice.errors import WrongUse
from sluice.runtime import PACKAGE

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a zip entry can have
_FILE_MODE = 0o644 << 16
# Not Python, or the driver's alone.
_LEFT_OUT = frozenset({"_shipped", "__pycache__"})


def archive(package: Path = PACKAGE) -> bytes:
    """Returns a zip of the package's Python files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as bundle:
        for path in sorted(package.rglob("*.py")):
            inside = path.relative_to(package)
            if not _LEFT_OUT & set(inside.parts):
                entry = zipfile.ZipInfo(str(package.name / inside), _EPOCH)
                entry.external_attr = _FILE_MODE
                bundle.writestr(entry, path.read_bytes())
    return content.getvalue()


def archive_file(folder: Path | None = None) -> Path:
    """Returns the archive in a file that its content names, so that runs of one version share it.

    Raises WrongUse when another user owns the folder: its owner decides what the workers run.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise WrongUse(f"{folder} is not this user's alone: remove it, or set TMPDIR to another folder")
    content = archive()
    path = folder / f"sluice-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as partial:
        partial.write(content)
    os.replace(partial.name, path)
    return path
