"""What Airflow or a proxy answers instead of what was asked: one line with the remedy. Pure."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sluice.clients.airflow_rest.access import Access
from sluice.errors import SluiceError, Unavailable, WrongUse
from sluice.safe_text import line

_LATER = (408, 425, 429)
_MOST = 300
_OTHER_NAME = (62, 64)  # of host and of address: X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_CUT_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError)  # by a server that ends


@dataclass(frozen=True)
class Answer:
    """`request` is method and path; `location` where a redirect leads."""

    request: str
    status: int
    text: str
    location: str = ""

    def content(self) -> dict[str, Any] | None:
        """Returns the JSON object, or None where it is none."""
        try:
            content = json.loads(self.text or "{}")
        except (ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None

    @property
    def not_there(self) -> bool:
        """Whether Airflow itself says so: a gateway that has lost it answers 404, too, with other words."""
        return self.status == 404 and "detail" in (self.content() or {})


def refused(access: Access, answer: Answer, answered: bool = False) -> SluiceError | None:
    """Returns the error of an answer to a call, or None for what was asked for.

    `answered`: Airflow has answered before, so a proxy's page stands there while Airflow is away.
    """
    at = f"Airflow at {access.url}"
    if 300 <= answer.status < 400:
        return WrongUse(f"{at} redirects {answer.request} {_redirected(access, answer.location)}")
    if answer.status >= 500 or answer.status in _LATER:
        return Unavailable(f"{at} answered {answer.status} to {answer.request}: try again, or read its log")
    if no_login(answer):
        return WrongUse(
            f"{at} refuses the login ({answer.request}: {answer.status}): {_login_remedy(access)}"
        )
    if answer.content() is None or (answered and answer.status == 404 and not answer.not_there):
        return (Unavailable if answered else WrongUse)(
            f"{at} answered {answer.request} ({answer.status}) with what is not Airflow's: what answers "
            f"there is a proxy, or the base path is wrong; {access.remedy}"
        )
    if answer.status == 403:
        may_not = f"{access.login or 'the token'} may not do that; grant the right"
        return WrongUse(f"{at} refuses {answer.request} (403): {detail(answer)}; {may_not}")
    if answer.status >= 400:
        return WrongUse(f"{at} refused {answer.request} ({answer.status}): {detail(answer)}")
    return None


def no_login(answer: Answer) -> bool:
    """Returns whether the token is at fault. Airflow answers 401 for an expired one, and 403 for one that
    another server has signed (airflow/api_fastapi/core_api/security.py)."""
    return answer.status == 401 or (answer.status == 403 and detail(answer) == "Invalid JWT token")


def no_api(access: Access, answer: Answer) -> SluiceError | None:
    """Judges as `refused` does, for the version of the API, which needs no login."""
    content = answer.content() or {}
    if answer.status == 404 or (answer.status == 200 and "version" not in content):
        return WrongUse(
            f"no REST API of Airflow 3 (/api/v2) is below {access.url} ({answer.request}: {answer.status}): "
            f"give its base path, too; {access.remedy}"
        )
    return refused(access, answer)


def no_token(access: Access, answer: Answer) -> SluiceError | None:
    """Judges as `refused` does, for the login; nothing of the answer is quoted, for it may repeat the
    password."""
    at = f"Airflow at {access.url}"
    if answer.status in (404, 405):
        return WrongUse(
            f"{at} gives no token at {access.token_path} ({answer.status}): its auth manager has another "
            f"path (`token_path` in the extra of {access.source}) or none: then a token, without a login, "
            "is the connection's password"
        )
    if answer.status in (400, 401, 403, 422):
        return WrongUse(
            f"{at} refuses the login ({answer.request}: {answer.status}): {_login_remedy(access)}"
        )
    if answer.status < 300 and not isinstance((answer.content() or {}).get("access_token"), str):
        return WrongUse(f"{at} answered the login with no token: a proxy answers there; {access.remedy}")
    return refused(access, answer)


def no_answer(access: Access, error: Exception) -> SluiceError:
    """Returns the error of a server that could not be reached, or whose certificate is refused."""
    at, cause = f"Airflow at {access.url}", _root(error)
    if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_code in _OTHER_NAME:
        why = line(cause.verify_message, _MOST)
        return WrongUse(
            f"{at} has a certificate for another name ({why}): correct the host in {access.source}"
        )
    if isinstance(cause, ssl.SSLCertVerificationError):
        return WrongUse(
            f"{at} has a certificate that is not trusted ({line(cause.verify_message, _MOST)}): let `verify` "
            f"in the extra of {access.source} name the file of its CA"
        )
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, _CUT_OFF):
        return WrongUse(
            f"{at} does not speak TLS as expected ({cause.reason}): is it http://? {access.remedy}"
        )
    why = line(str(error), _MOST) or type(error).__name__
    return Unavailable(f"{at} does not answer ({why}): {access.remedy}")


def detail(answer: Answer) -> str:
    """Returns what Airflow says; of a list of mistakes their messages, and not what was sent."""
    explanation = (answer.content() or {}).get("detail", "")
    if isinstance(explanation, list):
        explanation = "; ".join(
            str(mistake.get("msg", "")) for mistake in explanation if isinstance(mistake, dict)
        )
    return line(str(explanation), _MOST) or "it does not say why"


def _login_remedy(access: Access) -> str:
    if access.token:
        return f"the token has expired or is another Airflow's: put a new one into {access.source}"
    if access.login:
        return f"check login and password of {access.source}"
    return "make a connection 'sluice_airflow' with login and password, or with a token as its password"


def _redirected(access: Access, location: str) -> str:
    """Says where a redirect leads, without the query, in which login pages keep secrets."""
    asked, target = urlsplit(access.url), urlsplit(location)
    destination = line(
        f"{target.scheme}://{target.netloc}{target.path}" if target.netloc else target.path, _MOST
    )
    if (asked.scheme, target.scheme) == ("http", "https") and asked.hostname == target.hostname:
        return f"to {destination}: write https:// in {access.source}"
    return f"to {destination}, a login page or a proxy: name an address in {access.source} that takes tokens"


def _root(error: BaseException) -> BaseException:
    """Returns the TLS error below, or the error itself."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, ssl.SSLError):
            return below
        below = below.__cause__ or below.__context__
    return error
