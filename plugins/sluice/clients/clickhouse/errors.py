"""What an error of ClickHouse means for the statement that met it, in one table.

`RETRY`: nothing was done, or only blocks of a statement, which the next attempt removes. `UNKNOWN`: the
statement may still take effect; the next attempt fences, reads the state, and runs it again. Both are
retried, and the next attempt does the same for both. `FINAL`: a person has to act; so is every code that is
not here. Codes: https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sluice.errors import SluiceError


class Outcome(StrEnum):
    RETRY = "retry"
    UNKNOWN = "unknown"
    FINAL = "final"


@dataclass(frozen=True)
class Rule:
    """`remedy` is what a person can do about it; `says` limits the rule to messages that hold it."""

    code: int
    name: str
    outcome: Outcome
    remedy: str = ""
    says: str = ""


UNKNOWN_IDENTIFIER = 47
UNKNOWN_TABLE = 60
READONLY = 164
UNKNOWN_DATABASE = 81
TOO_MANY_PARTS = 252
UNFINISHED = 341
UNKNOWN_SETTING = 115
CONSTRAINT = 452
CONNECTING = "connecting"  # as a step
NO_CLUSTER = 701
THROWN = 395  # by throwIf()
ACCESS_DENIED = 497

_PASSWORD = "correct user and password of the connection"  # noqa: S105 - advice
_RIGHTS = "grant it to the user of the connection"

# Of several rules of one code the first whose `says` fits decides.
RULES: tuple[Rule, ...] = (
    # the server had no room for it at this moment
    Rule(173, "CANNOT_ALLOCATE_MEMORY", Outcome.RETRY),
    Rule(201, "QUOTA_EXCEEDED", Outcome.RETRY, "raise the quota of the user, or wait for its next interval"),
    Rule(202, "TOO_MANY_SIMULTANEOUS_QUERIES", Outcome.RETRY),
    Rule(241, "MEMORY_LIMIT_EXCEEDED", Outcome.RETRY, "give the server more memory, or make batches smaller"),
    Rule(243, "NOT_ENOUGH_SPACE", Outcome.RETRY, "free disk space on the server"),
    Rule(
        TOO_MANY_PARTS,
        "TOO_MANY_PARTS",
        Outcome.FINAL,
        "a table that a materialized view writes to has more partitions than the target: partition it more "
        "coarsely, or raise max_partitions_per_insert_block for the user of the connection",
        says="Too many partitions for single INSERT",
    ),
    Rule(TOO_MANY_PARTS, "TOO_MANY_PARTS", Outcome.RETRY, "merges are behind: try again later"),
    Rule(439, "CANNOT_SCHEDULE_TASK", Outcome.RETRY),
    Rule(473, "DEADLOCK_AVOIDED", Outcome.RETRY),
    Rule(517, "CANNOT_ASSIGN_ALTER", Outcome.RETRY),
    Rule(692, "TOO_MANY_MUTATIONS", Outcome.RETRY),
    Rule(745, "SERVER_OVERLOADED", Outcome.RETRY),
    # replicas and Keeper
    Rule(225, "NO_ZOOKEEPER", Outcome.RETRY),
    Rule(242, "TABLE_IS_READ_ONLY", Outcome.RETRY, "the replica has lost Keeper: try again later"),
    Rule(285, "TOO_FEW_LIVE_REPLICAS", Outcome.RETRY),
    Rule(286, "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE", Outcome.UNKNOWN),
    Rule(289, "REPLICA_IS_NOT_IN_QUORUM", Outcome.RETRY, "the replica is behind the others: try again later"),
    Rule(319, "UNKNOWN_STATUS_OF_INSERT", Outcome.UNKNOWN),
    Rule(999, "KEEPER_EXCEPTION", Outcome.UNKNOWN),
    # it was stopped somewhere in its middle
    Rule(95, "CANNOT_READ_FROM_SOCKET", Outcome.UNKNOWN),
    Rule(96, "CANNOT_WRITE_TO_SOCKET", Outcome.UNKNOWN),
    Rule(159, "TIMEOUT_EXCEEDED", Outcome.UNKNOWN),
    Rule(209, "SOCKET_TIMEOUT", Outcome.UNKNOWN),
    Rule(210, "NETWORK_ERROR", Outcome.UNKNOWN),
    Rule(216, "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", Outcome.UNKNOWN),
    Rule(236, "ABORTED", Outcome.UNKNOWN),
    Rule(UNFINISHED, "UNFINISHED", Outcome.UNKNOWN),
    Rule(394, "QUERY_WAS_CANCELLED", Outcome.UNKNOWN),
    Rule(735, "QUERY_WAS_CANCELLED_BY_CLIENT", Outcome.UNKNOWN),
    # it reads the lake itself
    Rule(499, "S3_ERROR", Outcome.FINAL, "allow the named collection's key to read the lake",
         says="response code: 403"),
    Rule(499, "S3_ERROR", Outcome.FINAL, "verify says which file is missing",
         says="response code: 404"),
    Rule(499, "S3_ERROR", Outcome.UNKNOWN,
         "try again later; where it stays, correct the named collection's URL, or set `read: push`"),
    # a person has to act
    Rule(UNKNOWN_TABLE, "UNKNOWN_TABLE", Outcome.FINAL, "make it again, then load its slices"),
    Rule(READONLY, "READONLY", Outcome.FINAL,
         "take it out of the profile of the connection's user, with its constraint",
         says="the user's profile sets"),
    Rule(READONLY, "READONLY", Outcome.FINAL,
         "the user of the connection may only read: give it another profile"),
    Rule(CONSTRAINT, "SETTING_CONSTRAINT_VIOLATION", Outcome.FINAL,
         "take the constraint on it out of the profile of the connection's user"),
    Rule(192, "UNKNOWN_USER", Outcome.FINAL, _PASSWORD),
    Rule(193, "WRONG_PASSWORD", Outcome.FINAL, _PASSWORD),
    Rule(469, "VIOLATED_CONSTRAINT", Outcome.FINAL,
         "the table's CONSTRAINT refuses a row that fits its columns: correct the constraint"),
    Rule(ACCESS_DENIED, "ACCESS_DENIED", Outcome.FINAL, _RIGHTS),
    Rule(516, "AUTHENTICATION_FAILED", Outcome.FINAL, _PASSWORD),
)  # fmt: skip


def rule_of(code: int, message: str) -> Rule | None:
    """Returns the rule for an error of the server, or None: it is final."""
    return next((rule for rule in RULES if rule.code == code and rule.says in message), None)


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
        rule = rule_of(self.code, self.reason)
        return rule.outcome if rule else Outcome.FINAL

    def __post_init__(self) -> None:
        self.retryable = self.outcome is not Outcome.FINAL

    def __str__(self) -> str:
        rule = rule_of(self.code, self.reason)
        usual = "try again later" if self.retryable else "see the server's log"
        if self.step == CONNECTING and not self.retryable:
            usual += ", and the profile of the connection's user: even a first SELECT is refused"
        remedy = rule.remedy if rule and rule.remedy else usual
        label = self.name or f"error {self.code}"
        return f"ClickHouse {self.address}, {self.step}: {label}: {self.reason}; {remedy}"


def shorten(message: str, limit: int = 400) -> str:
    """Returns the server's message in one line: without its preamble, version and stack."""
    text = message.split("server response:", 1)[-1].split(" (for url ", 1)[0]
    text = text.split("DB::Exception:", 1)[-1].split(" (version ", 1)[0]
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + "…"
