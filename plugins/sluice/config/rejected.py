"""`rejected:` in the pipeline file: how much of an hour may be rejected."""

from __future__ import annotations

from pydantic import Field

from sluice.config.types import Section


class Rejected(Section):
    """Rejected records and rows are kept with their reason. If one reason rejects most of an hour, the rest
    still lands and loads, and then the run ends with an error, until a retry brings the records in or you
    raise the bound."""

    fail_above: float = Field(0.5, gt=0, le=1)
    """The largest share of an hour that one reason may reject, however few records there are: of the records
    of a cluster, of the rows in their arrays, or of a type's rows in a table. 1 is never. Example: `0.05`"""
