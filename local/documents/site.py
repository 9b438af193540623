"""Builds the site of all documents in var/site: `make docs`. A link that leads nowhere fails it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from local.progress import CommandFailed, run_alive, say
from local.versions import ROOT

CONFIG = Path(__file__).with_name("mkdocs.yml")
STYLE = CONFIG.with_name("site.css")
MKDOCS = ROOT / "var" / "docs-venv" / "bin" / "mkdocs"
SOURCE, SITE = ROOT / "var" / "site-source", ROOT / "var" / "site"
SERVE = "`python3 -m http.server --bind 127.0.0.1 --directory var/site`"


def documents() -> list[Path]:
    """Every document for readers, with the pictures that they show."""
    paths_by_folder = (
        ROOT.glob("*.md"),
        (ROOT / "docs").rglob("*.*"),
        (ROOT / "benchmarks").glob("README.md"),
    )
    return sorted(path for paths in paths_by_folder for path in paths)


def gather(source: Path = SOURCE) -> None:
    """Copies the documents to `source`, each under its place in the repository, so that links stay right."""
    shutil.rmtree(source, ignore_errors=True)
    for path in documents():
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    shutil.copyfile(STYLE, source / STYLE.name)


def build() -> None:
    gather()
    command = [str(MKDOCS), "build", "--strict", "--config-file", str(CONFIG)]
    run_alive(command, "building the site", ROOT, {**os.environ, "NO_MKDOCS_2_WARNING": "1"})


if __name__ == "__main__":
    try:
        build()
    except CommandFailed as error:
        print(f"sluice: {error}", file=sys.stderr)
        sys.exit(1)
    say(f"the site is in {SITE.relative_to(ROOT)}: {SERVE} shows it at http://127.0.0.1:8000")
