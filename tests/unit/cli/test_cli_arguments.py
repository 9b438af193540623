"""Any arguments of any command: it does what it says or refuses in one line, and never with a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.exceptions import TyperException

from sluice.cli.commands import commands
from sluice.clients.kafka import settings as kafka_settings
from sluice.errors import SluiceError
from tests.support.hostile_texts import HALVES, TEXTS

SPEC = {
    "kafka": [{"cluster": "dc1", "bootstrap": "127.0.0.1:1", "topics": ["bids", "clicks"]}],
    "event": {"type": {"field": "type"}, "time": {"field": "at"}},
    "tables": {"click": "db.click"},
}
# No argument of a process holds a NUL; bytes that are no UTF-8 come as half surrogates.
WORDS = st.sampled_from([text for text in (*TEXTS.values(), *HALVES.values()) if "\0" not in text])
INSTANTS = st.one_of(
    WORDS,
    st.sampled_from(
        [
            "now",
            "2026-11-20T10Z",
            "2026-11-20",
            "0001-01-01",
            "9999-12-31T23:59:59Z",
            "²h",
            "48h",
            "-1",
            "2026-11-20T10:00:60Z",
            "2026-02-30",
            "0001-01-01T00:00+14:00",
            "2106-01-01",
            "1970-01-01T00Z",
            "9" * 5000,
            "10000-01-01",
            "2026-W53-7",
            "2026-366",
            "-0001-01-01",
            "٢٠٢٦-١١-٢٠",
            "1e9",
            "nan",
        ]
    ),
    st.text(st.characters(exclude_characters="\0"), max_size=30),
    st.from_regex(r"\d{1,5}-\d\d?-\d\d?([T ]\d\d?(:\d\d?(:\d\d?)?)?)?(Z|[+-]\d\d:?\d\d)?", fullmatch=True),
)
NUMBERS = WORDS | st.sampled_from(["0", "-1", "1", "1e400", "nan", "inf", "9" * 5000, "²", "٣", "1.5"])
OPTIONS = {
    "plan": {"--from": INSTANTS, "--to": INSTANTS, "--mode": WORDS, "--day": INSTANTS},
    "run": {"--from": INSTANTS, "--to": INSTANTS, "--mode": WORDS, "--day": INSTANTS},
    "backfill": {"--from": INSTANTS, "--to": INSTANTS, "--mode": WORDS},
    "status": {"--from": INSTANTS, "--to": INSTANTS, "--every": NUMBERS},
    "verify": {"--from": INSTANTS, "--to": INSTANTS, "--day": INSTANTS},
    "traffic": {},
    "accept": {"": WORDS, "--from": INSTANTS, "--cluster": WORDS},
    "doctor": {"--from": INSTANTS, "--to": INSTANTS, "--sample": NUMBERS, "--ddl": WORDS},
    "publish": {"": WORDS, "--lag": NUMBERS, "--topic": WORDS, "--batch": WORDS, "--state": WORDS},
}
FLAGS = st.sampled_from(["--json", "--wait", "--dry-run", "--checksums", "--again", "--nothing"])


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A pipeline whose Kafka and ClickHouse answer at once that they are away."""
    folder = tmp_path_factory.mktemp("arguments")
    path = folder / "ads.yaml"
    path.write_text(yaml.safe_dump({**SPEC, "lake": f"file://{folder}/lake"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", "http://127.0.0.1:1")
        patch.setenv("AIRFLOW_CONN_SLUICE_AIRFLOW", '{"host": "http://127.0.0.1:1", "password": "t"}')
        patch.chdir(folder)
        patch.setattr(kafka_settings, "BOOTSTRAP_MS", 1)
        yield path


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(list(OPTIONS)))
    words = []
    for option, values in OPTIONS[command].items():
        if draw(st.booleans()) or option in ("", "--from", "--to"):
            words += [*filter(None, [option]), draw(values)]
    return [command, "ads", *words, *draw(st.lists(FLAGS, max_size=2))]


def ended(words: list[str]) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = commands(words, standalone_mode=False) or 0
        except (SluiceError, TyperException) as error:
            code, told = error.exit_code, str(error)
            err.write(f"sluice: {told}\n")
    return code, out.getvalue(), err.getvalue()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=command_lines())
def test_any_arguments(config: Path, words: list[str]):
    code, out, err = ended([*words[:2], "--config", str(config), *words[2:]])
    assert code in (0, 1, 2, 3)
    assert code == 0 or err or out


@pytest.mark.parametrize("number", ["nan", "inf", "1e400", "1e300", "0", "-1", "86401"])
def test_seconds_that_nothing_can_wait(number: str):
    code, _, message = ended(["status", "ads", "--watch", "--every", number])
    assert (code, message.count("\n")) == (2, 1)
    assert message.startswith("sluice: Input should be ")
