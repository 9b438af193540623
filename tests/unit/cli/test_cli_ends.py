"""How a `sluice` command ends that is interrupted while it starts, or whose output nobody reads."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.long_form import per_commit

ROOT = Path(__file__).parents[3]
# With a buffer, as a user has it, the output of a short command is written at its end.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "plugins"), "PYTHONUNBUFFERED": ""}
# Says when the first of the commands' modules is imported, and then waits to be interrupted there.
IN_AN_IMPORT = """
import sys
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            print("importing", flush=True)
            sys.stdin.read()
sys.meta_path.insert(0, Slow())
from sluice.cli import app
app()
"""
# A command of its own among the others: what it prints is more than a pipe holds, or less.
PRINTING = """
import sys
from sluice.cli import commands, output, app
def printing(lines: int, code: int = 0, way: str = "print"):
    table = lambda: output.show(output.table_of("t", ["a"], [["x" * 60]] * lines))
    plain = lambda: print(("x" * 60 + "\\n") * lines, end="")
    (table if way == "table" else plain)()
    return code
commands.commands.command()(printing)
app()
"""
# What `status --watch` does; nothing is asked.
REPEATING = """
from sluice.cli import commands, app, status
status._survey = lambda *_: ([], "t")
status.read_behind = lambda *_: None
status.shown = lambda *_: ["x" * 60] * 100
@commands.commands.command()
def repeating():
    status._watch(None, None, "now", 0.01, False)
commands.commands.command("other")(lambda: None)
app()
"""
# A command that asks a person, or reads a file from its standard input.
READING = """
import sys
from sluice.cli import commands, app
from sluice.cli.erase import read_where_file
from sluice.errors import WrongUse
from sluice.ship.lines import standard_input
def reading(way: str):
    if sys.stdin.isatty() if way == "asks" else standard_input().read() or read_where_file("-"):
        return 0
    raise WrongUse(way + ": nothing is there")
commands.commands.command()(reading)
app()
"""
# A command that logs, where a library has had all that is logged printed.
LOGGING = """
import logging
from sluice.cli import commands, app
def logging_command():
    logging.basicConfig(level=logging.INFO)
    log = logging.getLogger("sluice.flow.load.writer")
    log.info("a statement took 0.01 s")
    log.warning("something is odd")
commands.commands.command("log")(logging_command)
app()
"""


def start(program: str, *words: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=ENVIRONMENT, text=True, **{**pipes, **options})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["sluice.cli.commands", "rich.console", "sluice.cli.verify"])
def test_interrupted_while_it_imports(module: str, number: signal.Signals):
    with start(IN_AN_IMPORT.format(module=module), "status", "adx") as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert said == "sluice: interrupted; start it again: what is done stays done\n"
    assert process.returncode == 130


@pytest.mark.parametrize("code", per_commit(["0", "1"]))
@pytest.mark.parametrize("way", per_commit(["print", "table"]))
def test_a_reader_who_goes_away_is_no_error(way: str, code: str):
    """As with `| head`: the command ends as it would, and says nothing of it."""
    with start(PRINTING, "printing", "50000", "--code", code, "--way", way) as process:
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (int(code), "")


def test_what_is_repeated_ends_when_nobody_reads_it():
    with start(REPEATING, "repeating") as process:
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, "")


@pytest.mark.parametrize("code", ["0", "1"])
def test_a_command_that_is_done_says_so_unread(code: str):
    reading, writing = os.pipe()
    os.close(reading)
    with start(PRINTING, "printing", "5", "--code", code, stdout=writing) as process:
        os.close(writing)
        said = process.stderr.read()
    assert (process.returncode, said) == (int(code), "")


def test_an_error_that_nobody_reads_is_an_exit_code():
    reading, writing = os.pipe()
    os.close(reading)
    with start(PRINTING, "nothing-there", stderr=writing) as process:
        os.close(writing)
        said = process.stdout.read()
    assert (process.returncode, said) == (2, "")


@pytest.mark.parametrize("closed", per_commit([">&- 2>&-", ">&-", "2>&-"]))
@pytest.mark.parametrize("way", ["print", "table"])
def test_started_without_streams(closed: str, way: str):
    words = ["printing", "5", "--code", "1", "--way", way]
    script = f'exec "$0" -c "$1" {" ".join(words)} {closed}'
    words = ["/bin/sh", "-c", script, sys.executable, PRINTING]
    ran = subprocess.run(words, env=ENVIRONMENT, capture_output=True)
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr == b""


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-"])
@pytest.mark.parametrize("way", ["asks", "reads"])
def test_started_without_an_input(closed: str, way: str):
    """It is no terminal, and holds nothing."""
    script = f'exec "$0" -c "$1" reading {way} {closed}'
    words = ["/bin/sh", "-c", script, sys.executable, READING]
    ran = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (2, f"sluice: {way}: nothing is there\n")


# Says what it does, a remark, and its answer.
DOING = """
from sluice.cli import commands, app, output
from sluice.safe_text import Remark
def doing(verbose: bool = False):
    say = output.Progress(verbose)
    for text in ("reading 1", Remark("a shard is gone"), "reading 2" + "x" * 500):
        say(text)
    output.print_line("the answer")
commands.commands.command()(doing)
app()
"""
LONG = "reading 2" + "x" * 500


def on_terminal(*words: str) -> str:
    """Returns all that a terminal of 40 columns gets."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with start(DOING, "doing", *words, stdout=other, stderr=other):
        os.close(other)
        got = b""
        with suppress(OSError):  # Linux says so at the end
            while piece := os.read(main, 10_000):
                got += piece
    os.close(main)
    return got.decode().replace("\r\n", "\n")


def test_what_is_being_done_is_one_line_of_a_terminal():
    clear = "\r\x1b[2K"
    shown = f"{clear}reading 1{clear}a shard is gone\n{clear}{LONG[:39]}{clear}the answer\n"
    assert on_terminal() == shown
    assert on_terminal("--verbose") == f"reading 1\na shard is gone\n{LONG}\nthe answer\n"


@pytest.mark.parametrize(
    ("words", "said"), [((), []), (("--verbose",), ["reading 1", "a shard is gone", LONG])]
)
def test_without_a_terminal_only_remarks_and_the_answer_are_said(words: tuple[str, ...], said: list[str]):
    with start(DOING, "doing", *words) as process:
        out, err = process.communicate(timeout=60)
    assert out == "the answer\n" and err.splitlines() == (said or ["a shard is gone"])


def test_only_warnings_of_its_own_are_shown():
    words = [sys.executable, "-c", LOGGING, "log"]
    ran = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr == "WARNING:sluice.flow.load.writer:something is odd\n"


@pytest.mark.parametrize("way", ["print", "table"])
def test_an_output_that_is_full_and_does_not_block_is_waited_for(way: str):
    """As where `ssh` or Node has set O_NONBLOCK on what they share; a pipe holds 64 KiB."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    with start(PRINTING, "printing", "--way", way, "5000", stdout=writes) as process:
        while int.from_bytes(fcntl.ioctl(reads, termios.FIONREAD, b"\0" * 4), sys.byteorder) < 60_000:
            assert process.poll() is None
        os.close(writes)
        with os.fdopen(reads, "rb") as output:
            said = output.read()
        errors = process.stderr.read()
    assert (said.count(b"x" * 60), process.returncode, errors) == (5000, 0, "")
