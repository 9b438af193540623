"""The class behind a channel's `notifier`."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from sluice.errors import WrongUse


def notifier_class(path: str) -> type[Any]:
    """Imports the class. Whoever writes a pipeline file may send a message, and call nothing else: so it has
    to be a notifier of Airflow's.

    Raises WrongUse where it is another object, and whatever the import of its module raises.
    """
    module, _, name = path.rpartition(".")
    found = getattr(import_module(module), name)
    if not (inspect.isclass(found) and any(map(_is_airflows, found.__mro__))):
        raise WrongUse(f"{path} is no notifier: expected a subclass of Airflow's BaseNotifier")
    return found


def _is_airflows(base: type) -> bool:
    return base.__name__ == "BaseNotifier" and base.__module__.partition(".")[0] == "airflow"
