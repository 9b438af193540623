"""The pipeline file's `page:` block. The model is the documentation."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Payloads = Literal["hidden", "masked", "shown"]


class PageSettings(BaseModel):
    """What the page shows of rejected records' payloads and values, which may be personal data.

    `hidden`: nothing, to nobody. `masked`: their structure and field names, with kinds in place of values.
    `shown`: all to whom Airflow grants that right, and masked to everybody else.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    payloads: Payloads = "masked"
