"""Makes docs/guide/reference/commands.md from the command line's own parser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from local.documents.markdown import code, table
from sluice.cli.commands import commands

_COLUMNS = ("option", "value", "default", "meaning")
_VALUES = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "FILE"}
_INTRODUCTION = """# Commands

Every command of `sluice` and its options, made from the parser (`python -m local.documents.generated`). In
this folder the command is `.venv/bin/sluice`.

- A range is `--from A --to B`: ISO 8601, UTC where it names no zone, B not included. `now` is the end of the
  last complete slice, `-24h` so long before that, `today` and `yesterday` are 00:00 UTC. It is widened
  to whole slices, at most 100,000, of the years 1970 to 2105.
- `--day` stands for both ends: `2026-11-20`, `today`, `yesterday`, or `last`, the last complete day (UTC):
  the one that has been over for the pipeline's `settle`.
- A range may be a year. It is cut into batches, and whatever stops a command (Ctrl-C, `kill`, a crash), the
  same command goes on from there.
- `sluice --install-completion` makes the shell complete commands, options and names of pipelines.
- A table fits its terminal: columns that it cannot hold are hidden and named, and `--wide` shows them. Into a
  pipe or a file it has all columns. `--json` prints one JSON document; what is logged goes to standard error.

| exit code | means |
| --- | --- |
| 0 | done |
| 1 | the answer is no |
| 2 | wrong use: correct the command or the pipeline file |
| 3 | not now: a server is unavailable or refuses, another run is at it, or hours are not loaded yet |
| 130 | interrupted |
| 141 | the output is closed |

| mode | does |
| --- | --- |
| `fill` | what is missing or stale (the default) |
| `reload` | loads ClickHouse again from the lake, and lands what has not landed |
| `reload --missing-columns` | of what is loaded only hours that lack a column which their rows may have |
| `reland` | reads Kafka again with the same boundaries, and replaces the slice everywhere |
| `repair` | as `reload`, and by the rules of each hour's own last load: what `verify` prints for damage |
| `remake` | for experts: makes what has landed again out of the lake, by the pipeline file as it is |"""


def parser() -> Any:
    """The command line's parser; its `commands` are those that there are."""
    return typer.main.get_command(commands)


def page() -> str:
    sections = [_section(name, command) for name, command in every_command(parser())]
    return "\n\n".join([_INTRODUCTION, *sections]) + "\n"


def every_command(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """(name, command), those of groups with the group's name before theirs."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _section(name: str, command: Any) -> str:
    options = [parameter for parameter in command.params if _is_option(parameter)]
    names = " ".join(_argument(parameter) for parameter in command.params if not _is_option(parameter))
    meaning, _, example = " ".join(command.help.split()).partition(" Example: ")
    usage = " ".join(word for word in ("sluice", name, names, "[OPTIONS]" if options else "") if word)
    blocks = [f"## sluice {name}", f"`{usage}`", meaning]
    if example:
        blocks.append(f"```sh\n{example}\n```")
    return "\n\n".join([*blocks, table(_COLUMNS, map(_row, options))] if options else blocks)


def _is_option(parameter: Any) -> bool:
    return parameter.opts[0].startswith("-")


def _argument(parameter: Any) -> str:
    return parameter.metavar or parameter.name.upper()


def _row(option: Any) -> tuple[str, ...]:
    return code(option.opts[0]), _value(option), _default(option), option.help


def _value(option: Any) -> str:
    if option.is_flag:
        return "–"
    names = option.metavar or _VALUES[option.type_descriptor.annotation]
    return ", ".join(map(code, names.split("|")))


def _default(option: Any) -> str:
    if option.required:
        return "**required**"
    return "–" if option.default in (None, False, "") else code(str(option.default))
