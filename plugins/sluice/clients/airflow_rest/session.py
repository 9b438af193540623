"""Calls Airflow's REST API with a login, and logs in again when the server no longer accepts the token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from sluice.clients.airflow_rest.access import Access
from sluice.clients.airflow_rest.refusals import Answer, no_answer, no_api, no_login, no_token, refused
from sluice.errors import SluiceError

SECONDS = 30
_API = "/api/v2"

Judge = Callable[[Access, Answer], SluiceError | None]


class Session:
    """`call` and `read` raise Unavailable, and WrongUse for what is refused."""

    def __init__(self, client: httpx.Client, access: Access) -> None:
        self._client, self.access = client, access
        if access.token:  # a gateway may ask for it everywhere
            client.headers["Authorization"] = f"Bearer {access.token}"
        self._send("GET", f"{_API}/version", judge=no_api)
        if not access.token:
            self._login()

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Sends a request; `path` is below /api/v2."""
        answer = self._authorized(method, f"{_API}{path}", body)
        if error := refused(self.access, answer, answered=True):
            raise error
        return answer.content() or {}

    def read(self, path: str) -> dict[str, Any] | None:
        """Sends a GET; returns None for what is not there."""
        answer = self._authorized("GET", f"{_API}{path}", None)
        if answer.not_there:
            return None
        if error := refused(self.access, answer, answered=True):
            raise error
        return answer.content() or {}

    def _authorized(self, method: str, path: str, body: Any) -> Answer:
        """A token lasts as long as Airflow's configuration says, and may not outlive the server."""
        answer = self._send(method, path, body)
        if self.access.token or not no_login(answer):
            return answer
        self._login()
        return self._send(method, path, body)

    def _login(self) -> None:
        self._client.headers.pop("Authorization", None)
        self._client.headers["Authorization"] = f"Bearer {self._new_token()}"

    def _new_token(self) -> str:
        path, login = self.access.token_path, self.access.login
        if login:
            body = {"username": login, "password": self.access.password}
            answer = self._send("POST", path, body, no_token)
        else:  # Airflow gives one without a login where all users are admins
            answer = self._send("GET", path, judge=no_token)
        return str((answer.content() or {})["access_token"])

    def _send(self, method: str, path: str, body: Any = None, judge: Judge = lambda *_: None) -> Answer:
        try:
            response = self._client.request(method, path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise no_answer(self.access, error) from error
        request = f"{method} {path.partition('?')[0]}"
        answer = Answer(request, response.status_code, response.text, response.headers.get("location", ""))
        if refusal := judge(self.access, answer):
            raise refusal
        return answer


@contextmanager
def open_session(access: Access) -> Iterator[Session]:
    """Yields a session that has logged in. Raises Unavailable and WrongUse."""
    with httpx.Client(base_url=access.url, timeout=SECONDS, verify=access.trust()) as client:
        yield Session(client, access)
