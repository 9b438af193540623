"""The front end's files hold together: what the first paint needs is asked for at once."""

from __future__ import annotations

import re
from pathlib import Path

from sluice import page

STATIC = Path(page.__file__).parent / "static"
INDEX = (STATIC / "index.html").read_text()
_IMPORT = re.compile(r'^import [^"]*"(\.[^"]+)"', re.MULTILINE)


def imported(module: Path) -> set[Path]:
    """All that a module needs before it runs."""
    own = {(module.parent / name).resolve() for name in _IMPORT.findall(module.read_text())}
    return own.union(*(imported(each) for each in own))


def test_every_module_of_the_first_paint_is_loaded_at_once():
    """Else a browser finds them one level of imports after the other, a round trip each."""
    ((early, names),) = re.findall(r'<script src="([^"]+)" data-modules="([^"]+)"', INDEX)
    folder = (STATIC.parent / early).parent
    loaded = {(folder / f"{name}.js").resolve() for name in names.split()}
    assert loaded == imported(STATIC / "js" / "main.js")
    assert not any("vendor" in path.parts or path.name == "pipeline.js" for path in loaded)


def test_every_file_that_is_named_is_there():
    names = re.findall(r'(?:src|href)="(static/[^"]+)"', INDEX)
    assert len(names) > 5
    assert [name for name in names if not (STATIC.parent / name).is_file()] == []
    modules = list((STATIC / "js").glob("*.js"))
    named = {path for module in modules for path in imported(module)}
    assert [path for path in named if not path.is_file()] == []
