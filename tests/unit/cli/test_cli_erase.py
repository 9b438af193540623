"""`sluice erase --where-file`: a person's value is on no command line, and in no line that is said."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.cli.commands import commands
from sluice.errors import WrongUse
from sluice.flow.erase.erase import Applied, ErasurePlan
from sluice.flow.erase.search import ErasureRequest, Where
from sluice.flow.erase.what_is_left import LeftOnDisk, LeftParts
from sluice.state.erasures import ErasureProgress

ALICE = "alice@b.example"
FILE = """\
kafka: [{cluster: dc1, bootstrap: "nowhere:1", topics: [bids]}]
event: {type: {field: type}, time: {field: at}}
mask: {email: drop}
"""


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ErasureRequest]:
    """Records the request, and searches nothing."""
    found: list[ErasureRequest] = []

    def plan(self: Any) -> tuple[ErasurePlan, ErasureProgress]:
        found.append(self.request)
        return ErasurePlan(0, 0, {}, 0, {}), ErasureProgress()

    monkeypatch.setattr("sluice.flow.erase.erase.Eraser.plan", plan)
    return found


def asked(folder: Path, *words: str, typed: bytes = b"", reason: str = "ticket 4711") -> Any:
    file = folder / "p.yaml"
    file.write_text(f"{FILE}lake: file://{folder}/lake\n")
    line = ["erase", "p", "--config", str(file), "--reason", reason, *words]
    return CliRunner().invoke(commands, line, input=typed)


def refused(result: Any, said: str) -> None:
    """With one line, and without the person."""
    assert isinstance(result.exception, WrongUse)
    assert said in str(result.exception)
    assert ALICE not in result.output + str(result.exception)


def test_a_file_and_standard_input_and_what_is_typed(tmp_path: Path, requests: list[ErasureRequest]):
    person = tmp_path / "person.txt"
    person.write_text(f"email={ALICE}\n")
    email, key = Where(("email",), ALICE), Where(("_key",), "u7")
    for words, typed, wheres in (
        (["--where-file", str(person)], b"", (email,)),
        (["--where-file", "-"], b"_key=u7\n", (key,)),
        (["--where", "_key=u7", "--where-file", str(person)], b"", (key, email)),
    ):
        result = asked(tmp_path, *words, typed=typed)
        refused(result, "nobody is there to ask: --yes erases without a question")
        assert requests.pop().wheres == wheres


def test_no_error_repeats_the_value(tmp_path: Path):
    refused(asked(tmp_path, "--where-file", f"email={ALICE}"), "--where-file cannot be read: No such file")
    refused(asked(tmp_path, "--where-file", f"{ALICE}\0"), "--where-file cannot be read")
    refused(asked(tmp_path, "--where-file", str(tmp_path)), "--where-file cannot be read: Is a directory")
    refused(asked(tmp_path, "--where", ALICE), "--where: expected PATH=VALUE")
    refused(asked(tmp_path, "--where", ".".join("a" * 30) + "=1"), "--where: a path has at most 8 names")
    typed = f"_key=u7\n{ALICE}\n".encode()
    refused(asked(tmp_path, "--where-file", "-", typed=typed), "--where-file, line 2: expected PATH=VALUE")
    typed = f"email={ALICE}".encode()
    refused(asked(tmp_path, "--where-file", "-", typed=typed, reason=f"for {ALICE}"), "--reason names the")


def test_what_is_pending_is_applied_to_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever is named beside it would believe that he is erased."""
    monkeypatch.setattr("sluice.flow.erase.erase.apply_list", lambda *_: pytest.fail("it began"))
    for words, named in (
        (["--where", f"email={ALICE}", "--yes"], "--where, --reason"),
        (["--where-file", f"{tmp_path}/nowhere"], "--where-file, --reason"),
        (["--now"], "--reason, --now"),
    ):
        refused(
            asked(tmp_path, "--pending", *words),
            f"--pending applies the whole erasure list, and nobody is added to it: leave {named} out, or",
        )


def test_what_the_list_cannot_be_applied_to_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "p.yaml"
    file.write_text(f"{FILE}lake: file://{tmp_path}/lake\n")
    for unsearched, code in (((), 0), (("entry 0 of the erasure list is not applied to 2 units",), 1)):
        applied = Applied(3, 20, (), unsearched)
        monkeypatch.setattr("sluice.flow.erase.erase.apply_list", lambda *_, applied=applied: applied)
        for more in ([], ["--json"]):
            ran = CliRunner().invoke(commands, ["erase", "p", "--config", str(file), "--pending", *more])
            assert (ran.exit_code, "is not applied to 2 units" in ran.output) == (code, bool(code))


def test_the_plan_names_what_is_only_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for behind, said in ((0, False), (3, True)):
        plan = ErasurePlan(0, 4, {}, 0, {}, behind=behind), ErasureProgress()
        monkeypatch.setattr("sluice.flow.erase.erase.Eraser.plan", lambda _, plan=plan: plan)
        output = " ".join(asked(tmp_path, "--where", "_key=u7").output.split())
        assert ("3 other units landed again and are not loaded" in output) is said


def test_how_long_now_waits_is_said_before_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: list[ErasureRequest]
):
    """Of two servers. Nobody is there to answer, so nothing is erased."""
    servers = [
        LeftOnDisk("a:8123", (LeftParts("db.t", 0, 0, 480), LeftParts("db.u", 0, 0, 60)), 0, 300),
        LeftOnDisk("b:8123", (LeftParts("db.t", 0, 0, 60),), 0, 600),
    ]
    monkeypatch.setattr("sluice.flow.erase.finish._on_disk", lambda *_, **__: servers)
    result = asked(tmp_path, "--where", "_key=u7", "--now")
    refused(result, "nobody is there to ask: --yes erases without a question")
    said = " ".join(result.output.split())
    kept = "for which it keeps replaced parts and dropped tables"
    assert f"--now waits for a:8123 afterwards: about 480 s, {kept}, and 1,380 s at most" in said
    assert f"--now waits for b:8123 afterwards: about 600 s, {kept}, and 1,500 s at most" in said
    assert "without --now nothing waits" in said
    assert "--now" not in asked(tmp_path, "--where", "_key=u7").output


def test_a_file_has_a_bound(tmp_path: Path):
    large = tmp_path / "large.txt"
    large.write_bytes(b"\n" * (1 << 20) + b"\n")
    refused(asked(tmp_path, "--where-file", str(large)), "--where-file: more than 1,048,576 bytes")


def test_who_types_the_values_is_asked_the_question_afterwards(tmp_path: Path):
    """Ctrl-D ends what `-` reads, and the answer is the next line."""
    main, other = pty.openpty()
    file = tmp_path / "p.yaml"
    file.write_text(f"{FILE}lake: file://{tmp_path}/lake\n")
    words = ["erase", "p", "--config", str(file), "--reason", "t", "--where-file", "-"]
    program = [sys.executable, "-c", "from sluice.cli import app; app()", *words]
    with subprocess.Popen(program, stdin=other, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        os.write(main, f"email={ALICE}\n\x04n\n".encode())
        said, _ = running.communicate(timeout=120)
    os.close(main)
    os.close(other)
    assert b"Erase them?" in said and b"nothing was changed" in said, said
    assert ALICE.encode() not in said
