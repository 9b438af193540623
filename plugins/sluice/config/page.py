"""The pipeline file's `page:` block. The reference is made of the model."""

from __future__ import annotations

from typing import Literal

from sluice.config.section import Section

Payloads = Literal["hidden", "masked", "shown"]


class PageSettings(Section):
    """What the page shows of rejected records' payloads and values, which may be personal data.

    `hidden`: nothing. `masked`: their structure and field names, with kinds in place of values.
    `shown`: all to whom Airflow grants that right, and masked to everybody else.
    """

    payloads: Payloads = "masked"
    """What the page shows of rejected records: nothing, their structure, or all to those who may see it.
    Example: `hidden`"""
