"""What the log of a stack says of parts that ended: honcho's lines are `14:03:11 kafka | its text`. Pure."""

import re
from collections.abc import Sequence

_LINE = re.compile(r"(?P<time>[\d:]+) (?P<name>\S+) +\| (?P<text>.*)")
_STOPPED = re.compile(r"(?P<name>\S+) stopped \(rc=-?\d+\)")
_GIVEN_UP = " times in a row: all stop"
_SHOWN = 200  # characters of a line
_AGAIN = " is started again"


def what_stopped(lines: Sequence[str]) -> str:
    """`kafka stopped (rc=1): its last line`, of the part whose end was that of all."""
    end = next((n for n, line in enumerate(lines) if _GIVEN_UP in line), None)
    stops = [n for n, line in enumerate(lines[:end]) if _stopped(line)]
    if not stops:
        return lines[-1] if lines else "it left no log"
    return _stop(lines, stops[0] if end is None else stops[-1])


def started_again(lines: Sequence[str]) -> list[str]:
    """A line for each part that was started again: how often, and how it ended the last time."""
    counts: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, line in enumerate(lines):
        if stopped := _stopped(line):
            last[stopped] = number
        elif (text := _text(line)).endswith(_AGAIN):
            name = text.removesuffix(_AGAIN)
            counts[name] = counts.get(name, 0) + 1
    return [
        f"{name} was started again {'once' if count == 1 else f'{count} times'}, last at "
        f"{lines[last[name]].partition(' ')[0]}: {_stop(lines, last[name])}"
        for name, count in counts.items()
    ]


def _stop(lines: Sequence[str], number: int) -> str:
    """With the last line that the part wrote before, but no frame of a stack trace."""
    what = _text(lines[number])
    name = what.split()[0]
    own = [found["text"] for line in lines[:number] if (found := _LINE.match(line)) and found["name"] == name]
    plain = [text for text in own if text and not text[0].isspace()]
    return ": ".join([what, *(text[:_SHOWN] for text in plain[-1:])])


def _text(line: str) -> str:
    """What the runner itself says in it."""
    found = _LINE.match(line)
    return found["text"] if found and found["name"] == "system" else ""


def _stopped(line: str) -> str:
    found = _STOPPED.fullmatch(_text(line))
    return found["name"] if found else ""
