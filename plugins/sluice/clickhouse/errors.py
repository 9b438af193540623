"""What an error of ClickHouse means for the statement that met it, in one table.

`RETRY`: nothing was done, or what was done is cleaned up by doing it again later. `UNKNOWN`: the statement
may still take effect; the next attempt fences, looks, and does it again. `FINAL`: a person has to act.
Codes: https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sluice.errors import SluiceError


class Outcome(StrEnum):
    RETRY = "retry"
    UNKNOWN = "unknown"
    FINAL = "final"


UNKNOWN_TABLE = 60
UNKNOWN_DATABASE = 81
TOO_MANY_PARTS = 252
UNFINISHED = 341

OUTCOMES: dict[int, Outcome] = {
    # the server had no room for it at this moment
    202: Outcome.RETRY,  # TOO_MANY_SIMULTANEOUS_QUERIES
    241: Outcome.RETRY,  # MEMORY_LIMIT_EXCEEDED
    243: Outcome.RETRY,  # NOT_ENOUGH_SPACE
    TOO_MANY_PARTS: Outcome.RETRY,  # merges are behind
    439: Outcome.RETRY,  # CANNOT_SCHEDULE_TASK
    473: Outcome.RETRY,  # DEADLOCK_AVOIDED
    517: Outcome.RETRY,  # CANNOT_ASSIGN_ALTER
    745: Outcome.RETRY,  # SERVER_OVERLOADED
    # replicas and Keeper
    225: Outcome.RETRY,  # NO_ZOOKEEPER
    242: Outcome.RETRY,  # TABLE_IS_READ_ONLY
    285: Outcome.RETRY,  # TOO_FEW_LIVE_REPLICAS
    286: Outcome.UNKNOWN,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
    319: Outcome.UNKNOWN,  # UNKNOWN_STATUS_OF_INSERT
    999: Outcome.UNKNOWN,  # KEEPER_EXCEPTION
    # it was stopped somewhere in its middle
    159: Outcome.UNKNOWN,  # TIMEOUT_EXCEEDED
    209: Outcome.UNKNOWN,  # SOCKET_TIMEOUT
    210: Outcome.UNKNOWN,  # NETWORK_ERROR
    216: Outcome.UNKNOWN,  # QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING
    236: Outcome.UNKNOWN,  # ABORTED
    UNFINISHED: Outcome.UNKNOWN,
    394: Outcome.UNKNOWN,  # QUERY_WAS_CANCELLED
}

REMEDIES: dict[int, str] = {
    241: "give the server more memory, or make batches smaller",
    243: "free disk space on the server",
    469: "the table's CONSTRAINT refuses a row that fits its columns: correct the constraint",
    497: "grant it to the user of the connection",
    516: "correct user and password of the connection",
}


@dataclass(eq=False)
class ServerError(SluiceError):
    """ClickHouse refused or broke off a statement. `code` is 0 when the answer had none."""

    address: str
    code: int
    name: str
    step: str
    reason: str

    @property
    def outcome(self) -> Outcome:
        return OUTCOMES.get(self.code, Outcome.FINAL)

    @property
    def retryable(self) -> bool:
        return self.outcome is not Outcome.FINAL

    def __str__(self) -> str:
        remedy = REMEDIES.get(self.code, "try again later" if self.retryable else "see the server's log")
        label = self.name or f"error {self.code}"
        return f"ClickHouse {self.address}, {self.step}: {label}: {self.reason}; {remedy}"


def shorten(message: str, limit: int = 400) -> str:
    """The server's message in one line: without its preamble, version and stack."""
    text = message.split("server response:", 1)[-1].split(" (for url ", 1)[0]
    text = text.split("DB::Exception:", 1)[-1].split(" (version ", 1)[0]
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + "…"
