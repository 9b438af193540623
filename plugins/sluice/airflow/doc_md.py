"""What Airflow's UI shows as the documentation of a DAG."""

from __future__ import annotations

import pendulum

from sluice.config.pipeline import CATCH_ALL, Pipeline, Target
from sluice.plan.batches import MAX_ROWS, OLDER_SLICES


def hourly(pipeline: Pipeline) -> str:
    healed = pendulum.duration(seconds=pipeline.lookback.total_seconds()).in_words()
    return f"""\
Lands every hour of **{pipeline.name}** in the lake and loads it into ClickHouse, each record exactly once.

{_pipeline(pipeline)}

A run takes its own hour and whatever is missing of the last {healed}. Then it takes a part of what is missing
of older hours, back to {_first(pipeline)}: at most {OLDER_SLICES} slices and {MAX_ROWS:,} rows, the oldest
first. So the runs catch up after an outage, or when this DAG was paused, while Kafka still has the records.
Records that Kafka has deleted need a decision: `on_expired` in the pipeline file.
Its page and `{pipeline.name}_watch` tell of an hour until it is complete. Clearing a task or a run is always
safe. Past hours: `{pipeline.name}_backfill`.
{_clusters(pipeline)}"""


def _first(pipeline: Pipeline) -> str:
    if pipeline.start is None:
        return "the first hour that was ever resolved"
    return f"`start`, {pipeline.start:%Y-%m-%dT%H:%MZ}"


def backfill(pipeline: Pipeline) -> str:
    return f"""\
Does any past range of **{pipeline.name}** (again); overlapping ranges and repeated runs never duplicate.

{_pipeline(pipeline)}

| mode | does |
| --- | --- |
| `fill` | what is missing or stale |
| `reload` | loads ClickHouse again from the lake, and lands what has not landed |
| `reland` | reads Kafka again and replaces the hours in the lake and in ClickHouse, by their own rules |

With `missing_columns` a `reload` takes of what is loaded only what was loaded before a column was added and
may have its field. For experts: `repair` is a `reload` by the rules of each hour's own last load, and
`remake` makes what has landed again out of the lake, by the pipeline file as it is, without Kafka.


`from` and `to` are widened to whole slices. `tables` names those that are loaded, each with its rollups;
the others keep their rows. Whole hours are verified and published, and none that another table lacks.
`dry_run` logs in the task `plan` what would be done, and stops.
The same from a shell: `sluice backfill {pipeline.name} --from 2026-11-20T00:00Z --to now --wait`
"""


def watch(pipeline: Pipeline) -> str:
    bounds = pipeline.alarms
    channels = "".join(f"\n- {channel.name}" for channel in bounds.notify) or " none, for now."
    every = pendulum.duration(seconds=bounds.every.total_seconds()).in_words()
    healed = pendulum.duration(seconds=pipeline.lookback.total_seconds()).in_words()
    overdue = pendulum.duration(seconds=(pipeline.settle + bounds.overdue).total_seconds()).in_words()
    return f"""\
Observes **{pipeline.name}** every {every} and notifies of a problem
once, and once more when it is over.

| problem | when |
| --- | --- |
| hour overdue, hour not committed | {overdue} after the hour's end it is not landed, or not in a table |
| table missing | a target table is not there |
| older hours | hours before the last {healed} are not complete |
| retention | Kafka will soon delete an hour that has not landed |
| open transaction | records wait behind a transaction that does not end |
| lag | the newest complete hour, or the records not landed, are beyond a bound |
| partition stands still | no record while the topic's other partitions move |
| anomaly | the last verify of an hour has found a broken equation |
| too few events | an hour brought fewer rows of a type than is usual for it |
| rejects above share | more of an hour's records or rows were rejected than `alarms.rejected` allows |
| field missing | rows have no value for a column, in a larger share than before |
| schema changed | fields of events are new, have vanished, or have another kind: notified once |
| server error, replication queue, parts, disk | ClickHouse is in trouble |
| unavailable | Kafka or ClickHouse does not answer |
| more problems | over 1,000 are open; the others are counted |

Notified channels:{channels}

Bounds and channels are the `alarms:` block of the pipeline file; what is open is in the lake, `_alarms/`.
"""


def _clusters(pipeline: Pipeline) -> str:
    if len(pipeline.clusters) == 1:
        return ""
    return (
        "\nA cluster that is unavailable holds up no other: only its task `cluster[…]` fails, and the next "
        "run brings its hours.\n"
    )


def _pipeline(pipeline: Pipeline) -> str:
    topics = "\n".join(f"| Kafka `{c.cluster}` | {', '.join(c.topics)} |" for c in pipeline.kafka)
    tables = "\n".join(f"| `{target.table}` | {_taken(target)} |" for target in pipeline.targets)
    return f"| from, to | |\n| --- | --- |\n{topics}\n| lake | `{pipeline.lake}` |\n{tables}"


def _taken(target: Target) -> str:
    if target.rollup is not None:
        return f"a rollup of `{target.rollup.source}`"
    if target.counted:
        return "traffic counts"
    return ", ".join([*target.types, *([CATCH_ALL] if target.catch_all else [])])
