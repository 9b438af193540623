"""The names that Sluice's own statements give, which a column of a user's table may have, too."""

from __future__ import annotations

import re

from local.versions import ROOT

_NAMED = re.compile(r"\bAS ([a-z]\w*)|\b([a-z]\w*) AS\s*\(")


def names() -> list[str]:
    """Returns the aliases of every statement that can read a user's table, and what stands in its WITH.

    Those that begin with `sluice_` are no column of anybody's.
    """
    texts = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "include/sql").rglob("*.sql"))]
    filled_in = [text for text in texts if re.search(r"\{\w+\}", text)]
    found = {one or other for text in filled_in for one, other in _NAMED.findall(text)}
    return sorted(name for name in found if not name.startswith("sluice_"))
