"""The embedded ClickHouse keeps its password, its owner's files and its answers to itself."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlencode

import pytest

from local import landlock, services
from local.services import ClickHouseServer

pytestmark = pytest.mark.integration

PASSWORD = "correct horse"
SECRET = "nobody's business"
NOBODY = 65534
REFUSED = {516, 700}  # a wrong login; a second session of the server's own user


@dataclass(frozen=True)
class Place:
    server: ClickHouseServer
    lake: Path
    secret: Path

    def ask(self, sql: str, user: str = "sluice", password: str = PASSWORD, **more: str) -> tuple[int, str]:
        """ClickHouse's error code (0: none) and the answer's text."""
        login = urlencode({"user": user, "password": password, **more})
        response, text = self.send("POST", f"/?{login}", sql)
        return int(response.getheader("X-ClickHouse-Exception-Code", "0")), text

    def send(
        self, method: str, path: str, body: str = "", headers: dict | None = None
    ) -> tuple[HTTPResponse, str]:
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response, text


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """In a folder that everybody may enter; pytest's own is its owner's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield from guarded(Path(folder))


def guarded(folder: Path) -> Iterator[Place]:
    lake, secret = folder / "lake", folder / "secret"
    lake.mkdir()
    (lake / "event").write_text("landed")
    secret.write_text(SECRET)
    secret.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTHER_SECRET", SECRET)
        server = services.clickhouse_server(folder / "data", password=PASSWORD, reads=[lake])
    yield Place(server, lake, secret)
    server.kill()


@pytest.mark.parametrize(
    ("user", "password"),
    [("default", ""), ("default", PASSWORD), ("sluice", ""), ("sluice", "wrong"), ("", ""), ("nobody", "")],
)
def test_without_the_password_nobody_asks_anything(place: Place, user: str, password: str):
    code, text = place.ask("SELECT 'an answer'", user, password)
    assert code in REFUSED, text
    code, text = place.ask("SELECT 'an answer'", user, password, max_sessions_for_user="0")
    assert code in REFUSED, text
    assert place.ask("SELECT 'an answer'") == (0, "an answer\n")


def files(place: Place) -> list[str]:
    ways = ["SELECT * FROM file('{}', 'LineAsString')", "SELECT file('{}')"]
    ways += ["SELECT * FROM url('file://{}', 'LineAsString')", "SELECT * FROM sqlite('{}', 'sqlite_master')"]
    paths = [place.secret, place.lake / ".." / "secret", "/etc/passwd", f"/proc/{os.getpid()}/environ"]
    return [way.format(path) for way in ways for path in paths]


needs_landlock = pytest.mark.skipif(landlock.version() == 0, reason="this kernel has no Landlock")


@needs_landlock
def test_a_query_reads_the_lake_and_no_other_file(place: Place):
    for sql in files(place):
        code, text = place.ask(sql)
        assert code, f"{sql}: {text}"
        assert SECRET not in text
        assert "root:" not in text
    (place.lake / "link").symlink_to(place.secret)
    assert place.ask(f"SELECT * FROM file('{place.lake}/link', 'LineAsString')")[0] == 76
    assert place.ask(f"SELECT * FROM file('{place.lake}/event', 'LineAsString')") == (0, "landed\n")


@needs_landlock
def test_a_query_writes_into_the_servers_own_folder_only(place: Place):
    for path in (place.lake / "event", place.lake / "new", place.secret, place.secret.with_name("new")):
        sql = f"INSERT INTO FUNCTION file('{path}', 'LineAsString') SELECT 'overwritten'"
        code, text = place.ask(sql, engine_file_truncate_on_insert="1")
        assert code == 76, text
    assert (place.lake / "event").read_text() == "landed"
    assert place.secret.read_text() == SECRET
    assert not (place.lake / "new").exists()
    assert place.ask("INSERT INTO FUNCTION file('own', 'LineAsString') SELECT 'kept'") == (0, "")
    assert place.ask("SELECT * FROM file('own', 'LineAsString')") == (0, "kept\n")


@needs_landlock
def test_a_query_runs_no_program(place: Place):
    ran = place.server.data / "run" / "ran"
    source = f"SOURCE(EXECUTABLE(COMMAND 'touch {ran}' FORMAT TSV))"
    assert place.ask("CREATE DATABASE IF NOT EXISTS d") == (0, "")
    sql = f"CREATE DICTIONARY d.d (a UInt64, b String) PRIMARY KEY a {source} LAYOUT(FLAT()) LIFETIME(0)"
    assert place.ask(sql) == (0, "")
    assert place.ask("SELECT * FROM d.d")[0]
    assert not ran.exists()


@pytest.mark.parametrize("password", [PASSWORD, ""])
def test_another_sites_page_gets_no_answer_to_read(place: Place, password: str):
    """What a browser asks for a page of another origin, and what it needs to hand out the answer."""
    login = urlencode({"user": "sluice", "password": password, "query": "SELECT 'an answer'"})
    asked = {"Origin": "http://elsewhere.example", "Access-Control-Request-Method": "POST"}
    for method in ("GET", "POST", "OPTIONS"):
        for more in ("", "&add_http_cors_header=1"):
            response, text = place.send(method, f"/?{login}{more}", headers=asked)
            allowed = [name for name, _ in response.getheaders() if name.startswith("Access-Control-Allow")]
            assert allowed == []
            if more:
                assert "an answer" not in text


def test_the_process_shows_no_secret(place: Place):
    process = Path("/proc", str(place.server.process.pid))
    for shown in ("cmdline", "environ"):
        text = (process / shown).read_text()
        assert SECRET not in text
        assert PASSWORD not in text
    assert PASSWORD not in place.server.log.read_text()
    assert PASSWORD not in place.ask("SELECT * FROM file('../users.xml', 'LineAsString')")[1]


def test_it_listens_on_loopback_only(place: Place):
    listening = {line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
    port = f":{place.server.port:04X}"
    assert [address for address in listening if address.endswith(port)] == ["0100007F" + port]


def test_what_it_writes_is_its_owners(place: Place):
    for sql in ("CREATE DATABASE own", "CREATE TABLE own.t (a Int8) ENGINE = MergeTree ORDER BY a"):
        assert place.ask(sql) == (0, "")
    assert place.ask("INSERT INTO own.t VALUES (1)") == (0, "")
    own = [path for path in place.server.data.rglob("*") if path.name != "service.log"]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in own if not path.is_symlink()}
    assert {path: mode for path, mode in modes.items() if mode & 0o77} == {}
    assert place.server.data / "users.xml" in own


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_reads_no_password(place: Place):
    public = place.secret.with_name("public")
    public.write_text("for everybody")
    public.chmod(0o644)
    paths = [place.server.data / name for name in ("users.xml", "config.xml", "run/stop")]
    said = subprocess.run(
        ["/bin/cat", public, *paths], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True
    )
    assert said.stdout == b"for everybody"
    assert said.stderr.count(b"Permission denied") == len(paths)
