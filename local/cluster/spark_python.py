"""The Python of the wide stack's Spark workers: this environment's packages, and nothing of the repository.

Another machine has an installation of its own. Here a second, empty environment takes the packages from the
first by a line in a .pth file; the editable `sluice`, itself such a file, does not come along.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path


def make(python: Path) -> None:
    """Makes the environment whose interpreter `python` is, unless it is there."""
    home = python.parents[1]
    packages = home / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    line = packages / "packages-of-the-stack.pth"
    if not line.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", home], check=True)
        line.write_text(f"{sysconfig.get_path('purelib')}\n")
