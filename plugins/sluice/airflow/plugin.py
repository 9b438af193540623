"""Puts the Sluice page into Airflow's navigation: the wheel's entry point `airflow.plugins`.

Airflow loads plugins in every task's process too, and the app with all that it imports costs seconds of CPU
there: only its web server builds it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/sluice"
_WEB_SERVER = "airflow.api_fastapi.core_api.app"

Asgi = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


class Page:
    """The page as ASGI: built at once in the web server, elsewhere by a first request, which none gets."""

    def __init__(self) -> None:
        self._app: Asgi | None = _build() if _WEB_SERVER in sys.modules else None
        self._served = False

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if self._app is None:
            self._app = await asyncio.to_thread(_build)
        await self._app(scope, receive, send)
        if not self._served:  # the icon in Airflow's navigation, long before the page itself is opened
            self._served = True
            _warm_caches()


def _build() -> Asgi:
    from sluice.airflow.api.app import create_app

    return create_app()


def _warm_caches() -> None:
    from sluice.airflow.api.app import warm_caches

    warm_caches()


class SluicePage(AirflowPlugin):
    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:
        """Raises WrongUse for a second copy of the library: its page would be shown over the other's data."""
        from sluice.airflow.copies import refuse_second_copy

        refuse_second_copy()

    name = "sluice"
    fastapi_apps = [{"app": Page(), "url_prefix": PREFIX, "name": "Sluice"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Sluice",
            # Relative to Airflow's own address, which may have a path.
            "href": f"{PREFIX.lstrip('/')}/",
            "url_route": "sluice",
            "destination": "nav",
            "icon": f"{PREFIX.lstrip('/')}/static/nav.svg",
            "icon_dark_mode": f"{PREFIX.lstrip('/')}/static/icon-dark.svg",
        }
    ]
