"""Renders the statements of include/sql: `{name}` becomes a quoted identifier or an expression, and
`{name:Type}` stays as it is, ClickHouse's own parameter, whose value travels beside the statement."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import count

from sluice.runtime import SHIPPED

_FOLDER = SHIPPED / "include" / "sql"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Sql(str):
    """Text that is SQL already; `render` takes nothing else, so a bare name cannot slip in unquoted."""

    __slots__ = ()


def quote(text: str, mark: str) -> Sql:
    """Puts `text` between two of `mark`, with ClickHouse's backslash escapes; also of what a terminal obeys
    or nobody sees, for a statement may be printed."""
    escaped = text.replace("\\", "\\\\").replace(mark, "\\" + mark)
    if not escaped.isprintable():
        escaped = "".join(c if c.isprintable() else _bytes(c) for c in escaped)
    return Sql(mark + escaped + mark)


def _bytes(character: str) -> str:
    """Its bytes in UTF-8, each as `\\xHH`: the server reads escapes as bytes."""
    return "".join(f"\\x{byte:02X}" for byte in character.encode(errors="surrogatepass"))


def identifier(*parts: str) -> Sql:
    """Returns a name, or a qualified one: `identifier("db", "table")`."""
    return Sql(".".join(quote(part, "`") for part in parts))


def table(qualified: str) -> Sql:
    """Returns the identifier of `database.table` as pipeline files write it."""
    return identifier(*qualified.split(".", 1))


def literal(text: str) -> Sql:
    return quote(text, "'")


def listed(parts: Iterable[str], separator: str = ", ") -> Sql:
    return Sql(separator.join(parts))


def summed(parts: Sequence[str]) -> Sql:
    """Adds them up, as a tree: the server refuses a chain of some hundred operators as nested too deep."""
    if len(parts) < 3:
        return Sql(" + ".join(parts) or "0")
    half = len(parts) // 2
    return Sql(f"({summed(parts[:half])}) + ({summed(parts[half:])})")


def both(*conditions: str) -> str:
    """Returns all of them, and none is evaluated behind one that does not hold.

    For each AND and OR of equalities the server's planner walks through the whole statement once more, which
    takes minutes for a wide table.
    """
    *others, held = conditions
    for condition in reversed(others):
        held = f"if({condition}, {held}, 0)"
    return held


def either(*conditions: str) -> str:
    """Joins by OR: any of them, and none is evaluated behind one that holds; for `both`'s reason."""
    *others, held = conditions
    for condition in reversed(others):
        held = f"if({condition}, 1, {held})"
    return held


def render(name: str, **parts: Sql) -> Sql:
    """Returns the statement of `include/sql/<name>.sql`. Raises KeyError or TypeError when the parts do not
    fit."""
    text = _read(name)
    placeholders = set(_PLACEHOLDER.findall(text))
    if placeholders != set(parts):
        raise KeyError(f"{name}.sql takes {sorted(placeholders)}, not {sorted(parts)}")
    for key, part in parts.items():
        if not isinstance(part, Sql):
            raise TypeError(f"{name}.sql: {key} is {part!r}, which is not quoted")
    return Sql(_PLACEHOLDER.sub(lambda match: parts[match[1]], text))


@cache
def _read(name: str) -> str:
    lines = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).strip()


SYSTEM = "sluice"


# Names that Sluice makes beside the columns of a table of somebody else's. Pure.
def own_prefix(columns: Collection[str]) -> str:
    """Returns what such names begin with: no column's name does, whoever has chosen it."""
    prefixes = (f"sluice{number or ''}_" for number in count())
    return next(prefix for prefix in prefixes if not any(name.startswith(prefix) for name in columns))
