"""Files by which SQLMesh reads a pipeline's tables: external models, and a signal that hours are whole.

SQLMesh keeps a signal's code with the models that name it: what it asks is written into it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from sluice.clients.clickhouse.sql import SYSTEM, identifier
from sluice.config.pipeline import Pipeline
from sluice.mart_sources import MartSource

_MARK = "Written by Sluice of pipeline {}: write it again when a table or a cluster comes, then plan."
_UNREAD = re.compile(r"\b(?:BFloat16|Time64|QBit|Object|Interval\w+)\b")
"""Types for which SQLMesh would not load the project."""
_SIGNAL = '''\
# {mark}
from sqlmesh import signal

SECONDS = {seconds}
HOURS = {{
{hours}}}


@signal()
def {name}(batch, context, table: str):
    """Returns the intervals of which the table has every hour, from every cluster."""
    whole = {{int(row[0]) for row in context.engine_adapter.fetchall(HOURS[table])}}
    ready = []
    for start, end in batch:
        first = int(start.timestamp()) // SECONDS * SECONDS
        if whole.issuperset(range(first, int(end.timestamp()), SECONDS)):
            ready.append((start, end))
    return ready
'''


def sqlmesh_files(pipeline: Pipeline, sources: Sequence[MartSource]) -> dict[str, str]:
    """Returns the files by their paths in a SQLMesh project."""
    name, mark = f"sluice_{pipeline.name.replace('.', '_')}", _MARK.format(pipeline.name)
    hours = [f"    {source.table!r}: {str(source.hours)!r},\n" for source in sources]
    signal = _SIGNAL.format(
        mark=mark,
        name=name,
        seconds=int(pipeline.slice.total_seconds()),
        hours="".join(hours),
    )
    models = "".join(f"- {json.dumps(_model(source))}\n" for source in sources)
    return {f"external_models/{name}.yaml": f"# {mark}\n{models}", f"signals/{name}.py": signal}


def _model(source: MartSource) -> dict[str, object]:
    columns = {name: kind for name, kind in source.columns if not _UNREAD.search(kind)}
    name = identifier(SYSTEM, source.table)
    return {"name": name, "dialect": "clickhouse", "description": source.what, "columns": columns}
