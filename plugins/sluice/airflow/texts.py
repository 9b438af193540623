"""What Airflow's UI shows as the documentation of a DAG."""

from __future__ import annotations

import pendulum

from sluice.pipeline import CATCH_ALL, Pipeline


def hourly(pipeline: Pipeline) -> str:
    healed = pendulum.duration(seconds=pipeline.heal.total_seconds()).in_words()
    return f"""\
Lands every hour of **{pipeline.name}** in the lake and loads it into ClickHouse, each record exactly once.

{_pipeline(pipeline)}

A run takes its own hour and whatever is missing of the last {healed}, so after an outage nothing has
to be done by hand. Clearing a task or a run is always safe. Past hours: `{pipeline.name}_backfill`.
"""


def backfill(pipeline: Pipeline) -> str:
    return f"""\
Does any past range of **{pipeline.name}** (again); overlapping ranges and repeated runs never duplicate.

{_pipeline(pipeline)}

| mode | does |
| --- | --- |
| `fill` | what is missing or stale |
| `reload` | loads ClickHouse again from the lake; Kafka is not needed |
| `reland` | reads Kafka again with the same boundaries and replaces the hours in the lake and in ClickHouse |

`from` and `to` are widened to whole slices. `dry_run` logs in the task `plan` what would be done, and stops.
The same from a shell: `sluice backfill {pipeline.name} --from 2026-11-20T00:00Z --to now --wait`
"""


def _pipeline(pipeline: Pipeline) -> str:
    topics = "\n".join(f"| Kafka `{c.cluster}` | {', '.join(c.topics)} |" for c in pipeline.kafka)
    tables = "\n".join(
        f"| `{target.table}` | {', '.join([*target.types, *([CATCH_ALL] if target.catch_all else [])])} |"
        for target in pipeline.targets
    )
    return f"| from, to | |\n| --- | --- |\n{topics}\n| lake | `{pipeline.lake}` |\n{tables}"
