"""The wide stack's passwords and keys: made once, kept in a file that only its owner can read."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64encode
from pathlib import Path

from local.secret_file import write

NAMES = ("postgres", "redis", "s3", "jwt", "api")


def stored(home: Path) -> dict[str, str]:
    path = home / "secrets.json"
    if not path.exists():
        values = {name: secrets.token_urlsafe(24) for name in NAMES}
        values["fernet"] = urlsafe_b64encode(secrets.token_bytes(32)).decode()
        home.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        write(partial, json.dumps(values))
        partial.rename(path)
    return json.loads(path.read_text())
