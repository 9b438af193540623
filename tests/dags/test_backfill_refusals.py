"""What `sluice backfill` says of an Airflow that refuses, of a proxy before it, and of a wrong address."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pendulum
import pytest

from sluice.clients import connections
from sluice.clients.airflow_rest import session as sessions
from sluice.clients.airflow_rest.backfill_run import BackfillAsked, trigger
from sluice.clients.airflow_rest.session import Access, access, open_session
from sluice.errors import SluiceError, Unavailable, WrongUse
from tests.support.fake_airflow import DAG, RUNS, FakeAirflow, connection, fake_airflow

ASKED = BackfillAsked("ads", pendulum.datetime(2026, 11, 20, 10), pendulum.datetime(2026, 11, 20, 12))
NAME = "AIRFLOW_CONN_SLUICE_AIRFLOW"
PAGE = "<html><body>Sign in s3cret</body></html>"


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAirflow]:
    with fake_airflow() as server:
        monkeypatch.setenv(NAME, connection(server.url))
        yield server


def refusal(kind: type[SluiceError], **environment: str) -> str:
    with pytest.raises(kind) as raised, open_session(access(environment) if environment else access()) as at:
        trigger(at, ASKED, lambda _: None)
    said = str(raised.value)
    assert "\n" not in said and "s3cret" not in said
    assert "demo" not in said and "make up" not in said
    return said


REFUSED = {
    "no such DAG": (
        f"GET {DAG}",
        (404, {"detail": "Dag not found"}),
        "has no DAG ads_backfill.*import-errors",
    ),
    "no right": (f"GET {DAG}", (403, {"detail": "Forbidden"}), r"\(403\): Forbidden; ann may not do that"),
    "a wrong param": (f"POST {RUNS}", (400, {"detail": "bad\nfrom"}), r"\(400\): bad from"),
    "mistakes": (
        f"POST {RUNS}",
        (422, {"detail": [{"msg": "Field required", "input": "s3cret"}]}),
        r"\(422\): Field required$",
    ),
    "a login page": (
        f"GET {DAG}",
        (302, "", {"Location": "https://sso.example.com/login?state=s3cret"}),
        "redirects GET .* to https://sso.example.com/login, a login page or a proxy: name an address",
    ),
    "only https": (
        "GET /api/v2/version",
        (301, "", {"Location": "https://127.0.0.1/api/v2/version"}),
        "redirects .*: write https:// in connection 'sluice_airflow'",
    ),
    "a proxy's page": ("GET /api/v2/version", (200, PAGE), "no REST API of Airflow 3.*base path"),
    "a proxy's refusal": (
        "GET /api/v2/version",
        (403, PAGE),
        "with what is not Airflow.s.*check the addr",
    ),
    "another base path": ("GET /api/v2/version", (404, {"detail": "x"}), "no REST API of Airflow 3 .*404"),
    "a wrong password": (
        "POST /auth/token",
        (401, {"detail": "s3cret"}),
        "refuses the login.*check login and",
    ),
    "a password repeated": ("POST /auth/token", (422, {"detail": [{"msg": "s3cret"}]}), "refuses the login"),
    "another auth manager": ("POST /auth/token", (405, {}), "gives no token at /auth/token.*`token_path`"),
    "a page for a token": ("POST /auth/token", (200, PAGE), "answered the login with no token: a proxy"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_one_line_with_the_remedy(airflow: FakeAirflow, case: str):
    request, answer, words = REFUSED[case]
    airflow.answers[request] = [answer]
    said = refusal(WrongUse)
    assert re.search(words, said), said
    assert said.startswith(
        ("Airflow at http://127.0.0.1:", "no REST API of Airflow 3 (/api/v2) is below http:")
    )


def test_a_paused_dag_that_may_not_be_unpaused(airflow: FakeAirflow):
    airflow.answers[f"GET {DAG}"] = [(200, {"is_paused": True})]
    airflow.answers[f"PATCH {DAG}"] = [(403, {"detail": "Forbidden"})]
    said = refusal(WrongUse)
    assert "ads_backfill is paused" in said and "`airflow dags unpause ads_backfill`" in said
    assert f"POST {RUNS}" not in [request for request, _, _ in airflow.seen]


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_a_server_that_cannot_answer_now_is_unavailable(airflow: FakeAirflow, status: int):
    airflow.answers[f"GET {DAG}"] = [(status, PAGE)]
    assert f"answered {status} to GET {DAG}: try again" in refusal(Unavailable)


def test_whether_a_run_was_queued_is_not_known_when_the_answer_is_lost(airflow: FakeAirflow):
    airflow.answers[f"POST {RUNS}"] = [(504, PAGE)]
    assert "answered 504 to POST" in refusal(Unavailable)
    assert "the run may have been queued all the same" in refusal(Unavailable)


def test_a_token_that_has_expired(airflow: FakeAirflow, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NAME, json.dumps({"host": airflow.url, "password": "s3cret"}))
    airflow.answers[f"GET {DAG}"] = [(401, {"detail": "Invalid JWT token"})]
    assert "the token has expired or is another Airflow's: put a new one" in refusal(WrongUse)


def test_a_login_that_is_refused_the_second_time_too(airflow: FakeAirflow):
    airflow.answers[f"GET {DAG}"] = [(401, {"detail": "no"})]
    assert "check login and password of connection 'sluice_airflow'" in refusal(WrongUse)
    assert [request for request, _, _ in airflow.seen].count("POST /auth/token") == 2


def test_nobody_listens_and_nobody_answers_in_time(airflow: FakeAirflow, monkeypatch: pytest.MonkeyPatch):
    away = refusal(Unavailable, **{NAME: connection("http://127.0.0.1:1/airflow")})
    assert "Airflow at http://127.0.0.1:1/airflow does not answer" in away
    assert away.endswith("check the address in connection 'sluice_airflow'")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(sessions, "SECONDS", 0.05)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        late = refusal(Unavailable, **{NAME: connection(url)})
        assert "does not answer (timed out)" in late or "within 0.05 s)" in late


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"verfy": False}, "no such key in its extra: verfy; did you mean `verify`?"),
        ({"verify": True, "timeout": 3}, "no such key in its extra: timeout; there are: verify, token_path"),
    ],
)
def test_a_key_of_the_extra_that_would_have_no_effect(extra: dict[str, object], said: str):
    assert refusal(WrongUse, **{NAME: connection("http://127.0.0.1:1", **extra)}).endswith(said)


def certified(folder: Path, address: str) -> ssl.SSLContext:
    """Of a server with a certificate of its own, `ca.pem` in the folder."""
    made = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=airflow -addext subjectAltName=IP:{address}"
    files = ("-keyout", folder / "key.pem", "-out", folder / "ca.pem")
    subprocess.run(["openssl", *made.split(), *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context


def test_a_certificate_for_another_name(tmp_path: Path):
    with fake_airflow(certified(tmp_path, "127.0.0.2")) as server:
        trusted = connection(server.url, verify=str(tmp_path / "ca.pem"))
        said = refusal(WrongUse, **{NAME: trusted})
    assert "has a certificate for another name (" in said
    assert said.endswith("): correct the host in connection 'sluice_airflow'")


def test_a_server_that_cuts_off_the_handshake_is_unavailable():
    """As one does that ends: who waits for a run goes on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            taken, _ = listening.accept()
            taken.recv(1)
            taken.shutdown(socket.SHUT_RDWR)
            taken.close()

        thread = Thread(target=hang_up)
        thread.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        assert "does not answer" in refusal(Unavailable, **{NAME: connection(url)})
        thread.join()


def test_a_certificate_of_its_own_needs_its_ca(tmp_path: Path):
    with fake_airflow(certified(tmp_path, "127.0.0.1")) as server:
        said = refusal(WrongUse, **{NAME: connection(server.url)})
        assert "has a certificate that is not trusted (self-signed certificate): let `verify` in" in said
        for verify in (str(tmp_path / "ca.pem"), False):
            with open_session(access({NAME: connection(server.url, verify=verify)})) as session:
                assert session.call("GET", "/dags/ads_backfill") == {"is_paused": False}
        plain = server.url.replace("https", "http")
        assert "does not answer" in refusal(Unavailable, **{NAME: connection(plain)})
    with fake_airflow() as server:
        duration_text = refusal(WrongUse, **{NAME: connection(server.url.replace("http", "https"))})
        assert "does not speak TLS as expected" in duration_text
    missing = refusal(WrongUse, **{NAME: connection("https://airflow", verify="/nowhere/ca.pem")})
    assert "`verify` names /nowhere/ca.pem, which is no readable file of certificates" in missing


ADDRESSES = {
    "https://airflow.example.com/base/": "https://airflow.example.com/base",
    "airflow.example.com": "https://airflow.example.com",
    "airflow.example.com/base": "https://airflow.example.com/base",
    "127.0.0.1:8080": "http://127.0.0.1:8080",
    "http://airflow": "http://airflow",
    "https://[::1]:8443": "https://[::1]:8443",
}


@pytest.mark.parametrize("host", ADDRESSES)
def test_addresses(host: str):
    assert access({NAME: connection(host)}).url == ADDRESSES[host]


def test_the_uri_form_and_its_port():
    found = access({NAME: "http://ann:s3cret@airflow:8080/https?verify=false&token_path=%2Ft"})
    assert found == Access(
        "https://airflow:8080", "connection 'sluice_airflow'", "ann", "s3cret", "/t", False
    )
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"host": "https://ann:s3cret@airflow"}, "expected Airflow's address"),
        ({"host": "ftp://airflow"}, "expected Airflow's address"),
        ({"host": "https://airflow:port"}, "expected Airflow's address"),
        ({"host": "https://airflow?x=s3cret"}, "expected Airflow's address"),
        ({"host": "https://airflow", "login": "ann"}, "its password is missing"),
        ({"host": "https://airflow", "password": "s3cret\n"}, "a space, a line break"),
        (
            {"host": "https://airflow", "extra": {"verify": 1}},
            "`verify` in its extra is true, false or a file",
        ),
        (
            {"host": "https://airflow", "extra": {"token_path": "token"}},
            "`token_path` in its extra is a path",
        ),
        ({"login": "ann", "password": "s3cret"}, "expected Airflow's address"),
    ],
)
def test_a_connection_that_cannot_be_used(given: dict, words: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "_airflow", lambda: None)
    assert words in refusal(WrongUse, **{NAME: json.dumps(given)})


def test_the_address_of_airflows_configuration():
    base = {"AIRFLOW__API__BASE_URL": "https://airflow.example.com/base/"}
    login = json.dumps({"login": "ann", "password": "s3cret"})
    found = access({**base, NAME: login})
    assert (found.url, found.login) == ("https://airflow.example.com/base", "ann")
    assert access({**base, NAME: connection("https://other")}).url == "https://other"
    alone = access({**base, "SLUICE_HOME": "/nowhere"})
    assert (alone.url, alone.login, alone.token) == ("https://airflow.example.com/base", "", "")


def test_without_an_address_the_connection_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "_airflow", lambda: None)
    said = refusal(WrongUse, SLUICE_HOME="/nowhere")
    assert said.startswith("nothing says where Airflow is: set AIRFLOW_CONN_SLUICE_AIRFLOW")


def test_the_embedded_stacks_address_and_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "_airflow", lambda: None)
    (tmp_path / "airflow").mkdir()
    passwords = tmp_path / "airflow/simple_auth_manager_passwords.json.generated"
    passwords.write_text('{"admin": "generated"}')
    own = {"SLUICE_HOME": str(tmp_path), "SLUICE_AIRFLOW_PORT": "8181"}
    for given in (own, {**own, "AIRFLOW__API__BASE_URL": "http://127.0.0.1:8181"}):
        found = access(given)
        assert (found.url, found.login, found.password) == ("http://127.0.0.1:8181", "admin", "generated")
        assert "generated" not in repr(found)
    assert found.remedy == "start it with `make up`"
    assert access({**own, "AIRFLOW__API__BASE_URL": "https://other"}).url == "https://other"
    assert access({**own, NAME: connection("https://third")}).url == "https://third"
