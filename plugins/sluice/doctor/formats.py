"""Are the schemas there by which messages are decoded?"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.doctor.check import Area, Check, ok
from sluice.landing.decoding import decoding_of
from sluice.pipeline import Event


def format_checks(event: Event) -> Iterator[Check]:
    """Raises SchemaRefused, WrongUse, RegistryOutOfReach, RegistryRefused."""
    decoding = decoding_of(event)
    if decoding is None:
        return
    if decoding.file:
        yield ok(Area.SCHEMA, "format", f"{event.format.kind}: {decoding.file} can be used")
    if decoding.registry is not None:
        from sluice.formats.registry import Registry

        Registry(decoding.registry, serialized=False).check()
        yield ok(Area.SCHEMA, "format", f"the schema registry {decoding.registry.url} answers as one")
