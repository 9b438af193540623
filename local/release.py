"""Makes a release out of a clean tree: `make release VERSION=x.y.z`. It pushes nothing.

Lint and unit tests have to pass; then the version is set where it stands, the wheel, the source archive and
the wheel's constraints are built into dist/, and commit and tag are made.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from local.documents import since
from local.versions import ROOT

PROGRAMS = Path(sys.executable).parent
CHECKS = (
    (sys.executable, "-m", "ruff", "check", "."),
    (sys.executable, "-m", "pytest", "-q", "tests/unit"),
)
LIBRARY, COMPOSE, CHANGELOG = "plugins/sluice/__init__.py", "docker-compose.yaml", "CHANGELOG.md"
PINS = "requirements.txt"
SINCE, REFERENCE = "local/documents/since.json", "docs/guide/reference/pipeline-file.md"
_VERSION = re.compile(r'(?m)^(__version__ = ")(.+)(")$')
_IMAGE = re.compile(r"(?m)^(\s*image: sluice:)(\S+)()$")
_PIN = re.compile(r"(?m)^[\w.\[\]-]+==[^\\\n]*[^\\\s]")
_UNRELEASED = "## [Unreleased]\n"


class NotReleased(Exception):
    """Why nothing was released, and what to do; the tree is as it was."""


def numbers(version: str) -> tuple[int, ...]:
    """Raises NotReleased for anything but x.y.z."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise NotReleased(f"VERSION={version}: expected three numbers, such as 0.2.0")
    return tuple(map(int, version.split(".")))


def with_version(text: str, pattern: re.Pattern[str], version: str) -> str:
    """Returns `text` with the version in the one place where `pattern` has it. Raises NotReleased."""
    changed, count = pattern.subn(lambda found: found[1] + version + found[3], text)
    if count != 1:
        raise NotReleased(f"the version stands {count} times where it has to stand once: {pattern.pattern}")
    return changed


def with_heading(changelog: str, version: str, today: date) -> str:
    """Returns the changelog with its unreleased lines under the version. Raises NotReleased without any."""
    before, heading, after = changelog.partition(_UNRELEASED)
    unreleased = after.split("\n## [", 1)[0]
    if not heading or not unreleased.strip():
        raise NotReleased("CHANGELOG.md has nothing under [Unreleased]: write what has changed")
    return f"{before}{_UNRELEASED}\n## [{version}] - {today.isoformat()}\n{after}"


def release(root: Path, version: str, today: date, checks: Sequence[Sequence[str]] = CHECKS) -> list[Path]:
    """The files of the release, in `root`/dist. Raises NotReleased, before which it puts all back."""
    new_version = numbers(version)
    current = _VERSION.search((root / LIBRARY).read_text())[2]
    if new_version < numbers(current):
        raise NotReleased(f"VERSION={version} is older than {current}, which is the tree's")
    if _git(root, "status", "--porcelain"):
        raise NotReleased("the tree has changes that are not committed: commit or remove them (git status)")
    if _git(root, "tag", "--list", f"v{version}"):
        raise NotReleased(f"the tag v{version} is there already: choose a higher version")
    new = since.upcoming((root / CHANGELOG).read_text(), current)
    changed = {
        LIBRARY: with_version((root / LIBRARY).read_text(), _VERSION, version),
        COMPOSE: with_version((root / COMPOSE).read_text(), _IMAGE, version),
        CHANGELOG: with_heading((root / CHANGELOG).read_text(), version, today),
        SINCE: since.released((root / SINCE).read_text(), new, version),
        REFERENCE: since.released_page((root / REFERENCE).read_text(), new, version),
    }
    for check in checks:
        if subprocess.run(check, cwd=root).returncode:
            raise NotReleased(f"{' '.join(check[1:])} fails: mend that first")
    return _make(root, version, changed)


def _make(root: Path, version: str, changed: dict[str, str]) -> list[Path]:
    before = _git(root, "rev-parse", "HEAD")
    try:
        for name, text in changed.items():
            (root / name).write_text(text)
        built = build(root, version, root / "dist")
        _git(root, "commit", "-q", "-m", f"Sluice {version}", "--", *changed)
        _git(root, "tag", "-a", f"v{version}", "-m", f"Sluice {version}")
    except BaseException:
        _git(root, "reset", "-q", "--soft", before)  # the commit, where only the tag could not be made
        _git(root, "checkout", "-q", "HEAD", "--", *changed)
        raise
    return built


def build(root: Path, version: str, into: Path) -> list[Path]:
    """Wheel, source archive, and the constraints that a user installs the wheel with. Raises NotReleased."""
    command = [PROGRAMS / "uv", "build", "-q", "--no-build-isolation", "--python", sys.executable]
    done = subprocess.run([*command, "--out-dir", into, root], capture_output=True, text=True)
    if done.returncode:
        raise NotReleased(f"it cannot be built: {done.stderr.strip()}")
    (into / f"sluice-{version}-constraints.txt").write_text(constraints((root / PINS).read_text()))
    return sorted(into.glob(f"sluice-{version}*"))


def constraints(pins: str) -> str:
    """The pins without their hashes: with hashes pip takes no wheel of one's own."""
    return "".join(f"{pin}\n" for pin in _PIN.findall(pins))


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True)
    if done.returncode:
        raise NotReleased(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", help="x.y.z")
    try:
        built = release(ROOT, parser.parse_args().version, datetime.now(UTC).date())
    except NotReleased as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 1
    print("\n".join(str(path.relative_to(ROOT)) for path in built))
    print("sluice: committed and tagged; `git push --follow-tags` is yours to do")
    return 0


if __name__ == "__main__":
    sys.exit(main())
