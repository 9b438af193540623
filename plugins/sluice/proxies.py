"""Which proxy an HTTP client goes through: that of HTTP_PROXY or HTTPS_PROXY, unless NO_PROXY names the host.

All of Sluice's clients keep to this rule by themselves; what is here says it in errors.
"""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass


def proxy_of(url: str) -> str | None:
    """Returns the address of the proxy, without a login; None where there is none."""
    place, proxies = urlsplit(url), getproxies_environment()
    proxy = proxies.get(place.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(place.netloc.rpartition("@")[2], proxies):
        return None
    return proxy.rpartition("@")[2].rpartition("://")[2].rstrip("/")


def by_proxy(url: str, reason: str) -> str:
    """Returns why a server does not answer, and through which proxy it was asked."""
    proxy = proxy_of(url)
    if proxy is None:
        return reason
    return f"{reason}; asked through the proxy {proxy} of {_variable(url)}, see NO_PROXY"


def _variable(url: str) -> str:
    return f"{urlsplit(url).scheme.upper()}_PROXY"
