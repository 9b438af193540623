"""A schema registry behind TLS that lets in only who shows a certificate of its authority."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.clients.connections import Connection
from sluice.clients.lake.folder import FolderLake
from sluice.config.event import Event
from sluice.errors import RegistryRefused, SluiceError, WrongUse
from sluice.flow.land.formats.registry import SchemaRegistry, address_of
from sluice.slices import Slice, Unit
from sluice.state.manifests import read_manifests
from tests.support.certificates import Authority
from tests.support.landing_world import START, World, event, hours, pipeline
from tests.support.registry_server import RegistryServer, serve

SCHEMA = {"type": "record", "name": "Click", "fields": [{"name": "url", "type": "string"}]}
MESSAGE = b"\0\0\0\0\x01\x04hi"
STAMP = event()[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    own, foreign = Authority(folder, "ca"), Authority(folder, "other-ca")
    own.sign("server")
    own.sign("client")
    own.sign("expired", days=-1)
    own.sign("hidden", passphrase=b"pass")
    foreign.sign("foreign")
    (folder / "both.pem").write_bytes(
        (folder / "client.pem").read_bytes() + (folder / "client.key").read_bytes()
    )
    (folder / "text.pem").write_text("no certificate")
    return folder


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2], ids=["1.3", "1.2"])
def registry(folder: Path, request: pytest.FixtureRequest) -> Iterator[RegistryServer]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, request.param
    with serve(context) as server:
        server.avro(1, SCHEMA)
        yield server


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.flow.land.formats.registry.WAITS", (0.0, 0.0))


def asked(registry: RegistryServer, folder: Path, **names: str | None) -> SchemaRegistry:
    """As the connection says, with files of the folder."""
    names = {"ca": "ca.pem", "certificate": "client.pem", "key": "client.key", **names}
    extra = {key: str(folder / name) for key, name in names.items() if name}
    return SchemaRegistry(address_of(Connection("c", host=registry.url, extra=extra)), serialized=False)


def no_key_in(folder: Path, text: bytes) -> None:
    for path in folder.glob("*.key"):
        secret = b"".join(line for line in path.read_bytes().splitlines() if b"-----" not in line)
        assert secret not in text.replace(b"\n", b"").replace(b"\\n", b"") and secret[8:40] not in text


def test_the_right_certificate_is_let_in(registry: RegistryServer, folder: Path) -> None:
    for files in ({}, {"certificate": "both.pem", "key": None}):
        assert asked(registry, folder, **files).schema(1) is not None


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"certificate": None, "key": None},
            r"(asks for a client certificate|asks for another TLS, or for a client certificate)\): let "
            r"`certificate` and `key` in its connection's extra name a pair that it accepts$",
        ),
        (
            {"certificate": "foreign.pem", "key": "foreign.key"},
            r"does not know the authority of the client certificate\): let `certificate` and `key` .*signed$",
        ),
        (
            {"certificate": "expired.pem", "key": "expired.key"},
            r"the client certificate has expired\): renew `certificate`$",
        ),
        (
            {"ca": "other-ca.pem"},
            r"its certificate is not trusted: .*\): let `ca` in its connection's extra name the authority",
        ),
        ({"ca": None}, r"its certificate is not trusted: .*\): let `ca` in its connection's extra name"),
    ],
    ids=["none", "foreign", "expired", "another ca", "no ca"],
)
def test_any_other_is_told_at_once_what_to_change(registry, folder, files, told) -> None:
    with pytest.raises(RegistryRefused, match=told) as caught:
        asked(registry, folder, **files).schema(1)
    text = str(caught.value)
    assert text.startswith(f"the schema registry {registry.url} refuses (TLS with 127.0.0.1:")
    assert "\n" not in text and registry.asked == []
    no_key_in(folder, text.encode())


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"ca": "gone.pem"}, r"`ca` .*/gone.pem: No such file or directory"),
        ({"certificate": "gone.pem"}, r"`certificate` .*/gone.pem: No such file or directory"),
        ({"key": "gone.key"}, r"`key` .*/gone.key: No such file or directory"),
        ({"ca": "text.pem"}, r"`ca` .*/text.pem holds no certificates in PEM"),
        (
            {"certificate": "text.pem"},
            r"`certificate` .*/text.pem and `key` .* hold no certificate with its key",
        ),
        ({"key": "foreign.key"}, r"`certificate` .* and `key` .*/foreign.key are no pair"),
        (
            {"certificate": "client.pem", "key": None},
            r"`certificate` .*hold no certificate with its key in PEM",
        ),
        ({"certificate": "hidden.pem", "key": "hidden.key"}, r"`key` .*/hidden.key needs a passphrase"),
        ({"certificate": None}, r"`key` in its extra needs the `certificate`"),
    ],
)
def test_files_that_cannot_be_used_are_named(registry, folder, files, told) -> None:
    with pytest.raises(WrongUse, match=told) as caught:
        asked(registry, folder, **files)
    assert "\n" not in str(caught.value) and registry.asked == []
    no_key_in(folder, str(caught.value).encode())


def test_a_key_in_place_of_its_path_is_not_shown(folder: Path) -> None:
    held = (folder / "client.key").read_text()
    for text in (held, held.replace("\n", " "), "M" * 2_000):
        extra = {"certificate": str(folder / "client.pem"), "key": text}
        with pytest.raises(WrongUse, match="`key` in its extra is no path") as caught:
            address_of(Connection("c", host="https://r", extra=extra))
        assert held.splitlines()[1] not in str(caught.value) and "MMM" not in str(caught.value)


def test_https_to_a_plain_server_is_told() -> None:
    with serve() as plain:
        address = address_of(Connection("c", host=plain.url.replace("http:", "https:")))
        with pytest.raises(RegistryRefused, match="no TLS at this address"):
            SchemaRegistry(address, serialized=False).schema(1)


def test_a_token_is_got_with_the_same_certificate_and_renewed(registry, folder, monkeypatch) -> None:
    """One that has ended, by its own time or by the registry's word, is asked for again."""
    registry.login, registry.client, registry.expires = "Bearer first", "me:hush", 60
    names = {"ca": "ca.pem", "certificate": "client.pem", "key": "client.key"}
    extra = {key: str(folder / name) for key, name in names.items()} | {"token_url": f"{registry.url}/token"}
    address = address_of(Connection("c", host=registry.url, extra=extra, login="me", password="hush"))
    now = [1_000.0]
    monkeypatch.setattr("sluice.flow.land.formats.registry.time.monotonic", lambda: now[0])
    known = SchemaRegistry(address, serialized=False)
    for seconds, login, granted in ((0, "first", 1), (20, "first", 1), (50, "second", 2), (1, "third", 3)):
        now[0] += seconds
        if seconds in (50, 1):
            registry.login = f"Bearer {login}"
        assert known.schema(1) is not None and len(registry.granted) == granted


def landed(tmp_path: Path, monkeypatch, registry: RegistryServer, folder: Path, certificate: str):
    names = {"ca": "ca.pem", "certificate": f"{certificate}.pem", "key": f"{certificate}.key"}
    extra = {key: str(folder / name) for key, name in names.items()}
    place = {"conn_type": "http", "host": registry.url, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", json.dumps(place))
    form = {"type": {"topic": True}, "time": {"record": True}, "format": "avro"}
    read = Event.model_validate({**form, "registry": {"connection": "schemas"}})
    spec, lake = pipeline().model_copy(update={"event": read}), FolderLake(tmp_path / "demo")
    world = World({("dc1", "bids"): [[(MESSAGE, STAMP)]]})
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    [manifest] = read_manifests(lake, [Unit(Slice(START, spec.slice), "dc1")]).values()
    return manifest


def test_the_key_is_in_no_file_log_or_message(
    tmp_path: Path, monkeypatch, registry, folder, caplog: pytest.LogCaptureFixture, capfd: Callable
) -> None:
    """Searched byte by byte, after a landing that was refused and one that was not."""
    caplog.set_level("DEBUG")
    told = b""
    with pytest.raises(SluiceError, match="expired") as caught:
        landed(tmp_path, monkeypatch, registry, folder, "expired")
    told += f"{caught.value} {caught.value!r}".encode()
    assert landed(tmp_path, monkeypatch, registry, folder, "client").landed == 1
    printed = "".join(capfd.readouterr())
    no_key_in(folder, told + printed.encode() + caplog.text.encode())
    files = [path for path in (tmp_path / "demo").rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        no_key_in(folder, path.read_bytes())
