"""Takes Markdown documents apart: headings' anchors, links, samples of code, commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"(?:^`(?P<file>[^`\n]+)`:\n\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
_SPAN = re.compile(r"``(.+?)``|`([^`\n]+)`", re.S)


class Sample(NamedTuple):
    """A block of code; `section` is the heading above it, `file` the name in back-quotes before it."""

    section: str
    language: str
    text: str
    file: str


def pages() -> list[Path]:
    """Every document for readers."""
    found = (ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"), (ROOT / "benchmarks").glob("*.md"))
    return sorted(path for paths in found for path in paths)


def samples(text: str) -> Iterator[Sample]:
    parts = re.split(r"^## ", text, flags=re.M)
    for part in parts:
        section = "" if part is parts[0] else part.partition("\n")[0]
        for block in _FENCE.finditer(part):
            yield Sample(section, block["language"], block["text"], block["file"] or "")


def prose(text: str) -> str:
    """Without blocks of code."""
    return _FENCE.sub("", text)


def spans(text: str) -> list[str]:
    """Code within sentences."""
    return [" ".join((one or other).split()) for one, other in _SPAN.findall(prose(text))]


def links(text: str) -> list[str]:
    """Targets of links and pictures, but for those to other servers."""
    plain = _SPAN.sub("", prose(text))
    return [target for target in _LINK.findall(plain) if "://" not in target]


def anchors(text: str) -> set[str]:
    """Of headings, as GitHub makes them: small letters, digits, hyphens for spaces; a second one has `-1`."""
    found: dict[str, int] = {}
    for title in re.findall(r"^#+ (.+)$", prose(text), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).strip()
        found[name.replace(" ", "-")] = found.get(name.replace(" ", "-"), -1) + 1
    return {f"{name}-{n}" if n else name for name, times in found.items() for n in range(times + 1)}


def commands(text: str) -> Iterator[list[str]]:
    """The words of each simple command of a shell's lines; what `$(…)` starts is a command, too."""
    whole = re.sub(r"(^|\s)#[^\n]*", r"\1", text.replace("\\\n", " "))
    lexer = shlex.shlex(whole, posix=True, punctuation_chars="|&;()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    for word in [*lexer, "\n"]:
        if set(word) <= set("|&;()<>\n"):
            yield from [words] if words else []
            words = []
        elif words or not re.match(r"\w+=|(do|then|else|sudo|nice|time)$", word):
            words.append(word)
