"""Reads in a stack's log how parts ended: honcho's lines are `14:03:11 kafka | its text`. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LINE = re.compile(r"(?P<time>[\d:]+) (?P<name>\S+) +\| (?P<text>.*)")
_STOPPED = re.compile(r"(?P<name>\S+) stopped \(rc=-?\d+\)")
_GIVEN_UP = re.compile(r"(?P<name>\S+) has ended (?P<count>\d+) times in a row: all stop")
_SHOWN = 200  # characters of a line
_AGAIN = " is started again"


def what_stopped(lines: Sequence[str]) -> str:
    """`kafka stopped (rc=1): its last line`, of the part whose end was that of all."""
    end = next((n for n, line in enumerate(lines) if _GIVEN_UP.fullmatch(_text(line))), None)
    stops = [n for n, line in enumerate(lines[:end]) if _stopped(line)]
    if not stops:
        return lines[-1] if lines else "it left no log"
    return _stop(lines, stops[0] if end is None else stops[-1])


@dataclass(frozen=True)
class GivenUp:
    """The part whose ends were those of all: at what times of the day, and how it ended the last time."""

    part: str
    times: tuple[str, ...]
    last: str


def given_up(lines: Sequence[str]) -> GivenUp | None:
    for number, line in enumerate(lines):
        if found := _GIVEN_UP.fullmatch(_text(line)):
            stops = [n for n, before in enumerate(lines[:number]) if _stopped(before) == found["name"]]
            in_a_row = stops[-int(found["count"]) :]
            times = tuple(lines[n].partition(" ")[0] for n in in_a_row)
            return GivenUp(found["name"], times, _stop(lines, in_a_row[-1]))
    return None


def started_again(lines: Sequence[str]) -> list[str]:
    """Returns a line for each part that was started again: how often, and how it ended the last time."""
    counts: dict[str, int] = {}
    last_stops: dict[str, int] = {}
    for number, line in enumerate(lines):
        if stopped := _stopped(line):
            last_stops[stopped] = number
        elif (text := _text(line)).endswith(_AGAIN):
            name = text.removesuffix(_AGAIN)
            counts[name] = counts.get(name, 0) + 1
    return [
        f"{name} was started again {'once' if count == 1 else f'{count} times'}, last at "
        f"{lines[last_stops[name]].partition(' ')[0]}: {_stop(lines, last_stops[name])}"
        for name, count in counts.items()
    ]


def _stop(lines: Sequence[str], number: int) -> str:
    """Returns how a part ended, with the last line that it wrote before, without frames of a stack trace."""
    stop = _text(lines[number])
    name = stop.split()[0]
    texts = [
        found["text"] for line in lines[:number] if (found := _LINE.match(line)) and found["name"] == name
    ]
    plain = [text for text in texts if text and not text[0].isspace()]
    return ": ".join([stop, *(text[:_SHOWN] for text in plain[-1:])])


def _text(line: str) -> str:
    """Returns the text of a line that the runner itself wrote; empty for others."""
    found = _LINE.match(line)
    return found["text"] if found and found["name"] == "system" else ""


def _stopped(line: str) -> str:
    found = _STOPPED.fullmatch(_text(line))
    return found["name"] if found else ""
