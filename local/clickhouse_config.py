"""What the embedded ClickHouse is configured with: one user, who has a password, and no cross-origin answers.

The library's own session is that of the user `default`, without a password; the server's last query runs in
it until the server stops. `default` may have this one session, so nobody logs in as `default` over HTTP or
TCP, and `default` may do no more than that query does.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from local.secret_file import stored, write

USER = "sluice"
PASSWORD = "SLUICE_CLICKHOUSE_PASSWORD"  # noqa: S105 - a variable's name
_CONFIGURATION = "<clickhouse></clickhouse>"
_FIXED = "<constraints><add_http_cors_header><const/></add_http_cors_header></constraints>"
_USERS = """\
<clickhouse>
  <users>
    <default>
      <no_password/><networks><ip>127.0.0.1</ip></networks><profile>own</profile><quota>default</quota>
      <grants>
        <query>GRANT SYSTEM LISTEN ON *.*</query>
        <query>GRANT READ ON FILE</query>
        <query>GRANT CREATE TEMPORARY TABLE ON *.*</query>
      </grants>
    </default>
    <{user}>
      <password_sha256_hex>{digest}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>
      <named_collection_control>1</named_collection_control>
    </{user}>
  </users>
  <profiles>
    <default>{fixed}</default>
    <own><max_sessions_for_user>1</max_sessions_for_user>{fixed}</own>
  </profiles>
  <quotas><default/></quotas>
</clickhouse>
"""


def password_file(home: Path) -> Path:
    return home / "clickhouse-password"


def password_of(home: Path) -> str:
    """The password of the servers whose stack's data is in `home`."""
    return stored(password_file(home))


def login_of(home: Path) -> str:
    """Where a person finds it."""
    return f"user {USER}, password in {password_file(home)}"


def users(password: str) -> str:
    digest = hashlib.sha256(password.encode()).hexdigest()
    return _USERS.format(user=USER, digest=digest, fixed=_FIXED)


def write_configuration(data: Path, users: str, more: str | None = None) -> Path:
    """Writes the users and a configuration that names them; `more` is the text of a configuration file."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    write(data / "users.xml", users)
    named = f"<users_config>{data / 'users.xml'}</users_config></clickhouse>"
    write(data / "config.xml", (more or _CONFIGURATION).replace("</clickhouse>", named))
    return data / "config.xml"
