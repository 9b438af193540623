"""What the overview's cards ask for after the first paint: how far each pipeline is behind Kafka now."""

from __future__ import annotations

from fastapi import APIRouter

from sluice.airflow.api import cards
from sluice.airflow.api.access import Readable
from sluice.page.models import LagNow
from sluice.page.status_cache import TimedCache
from sluice.plan.lag import Lag

card_lag = APIRouter()
FRESH_SECONDS = 30
lags: TimedCache[LagNow] = TimedCache(FRESH_SECONDS)


def lag_now(lag: Lag) -> LagNow:
    behind = [part for part in lag.partitions if part.records > 0]
    ages = [part.seconds for part in behind if part.seconds is not None]
    return LagNow(
        at=lag.at,
        records=sum(part.records for part in behind),
        seconds=max(ages, default=None),
        rate=round(sum(part.rate for part in lag.partitions), 3),
        gone=sum(part.gone for part in lag.partitions),
        lacking=sum(part.lacking for part in lag.partitions),
        outside=sum(part.outside for part in lag.partitions),
        errors=lag.errors,
    )


@card_lag.get("/pipelines/{pipeline}/lag-now")
def lag_of_card(pipeline: Readable) -> LagNow:
    """Asks Kafka at most once in FRESH_SECONDS, for all readers. Raises what the lake and ClickHouse
    raise."""
    return lags.get(pipeline.name, lambda: lag_now(cards.lag(pipeline)))
