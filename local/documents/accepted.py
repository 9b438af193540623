"""The page "What Sluice accepts", out of the cases in tests/integration/cases, which the tests load."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from local.versions import ROOT

CASES = ROOT / "tests" / "integration" / "cases"
FORMATS = {"json": "JSON", "avro": "Avro", "protobuf": "Protobuf"}
PLACEHOLDERS = {"@DB@": "shop", "@H@": "2026-11-20T10", "@D@": "2026-11-20", "@T@": "10", "@S@": "1795170600"}
SCHEMAS = {".avsc": "json", ".json": "json", ".proto": "protobuf"}
LONGEST = 160
HEAD = """# What Sluice accepts

The tests load each case below by pull and by push, into one server and into two shards. Below each record is
what becomes of it. Bytes are shown in hexadecimal. To add a case, see
[Contributing](../../../CONTRIBUTING.md#a-case-of-what-producers-send).
"""


def page() -> str:
    """The cases by format, then by title."""
    cases = [(path.parent, yaml.safe_load(path.read_text())) for path in CASES.glob("*/case.yaml")]
    formats = list(FORMATS)
    cases.sort(key=lambda case: (formats.index(case[1]["format"]), case[1]["title"].lower()))
    sections = [HEAD]
    for kind, found in groupby(cases, key=lambda case: str(case[1]["format"])):
        sections += [f"## {FORMATS[kind]}\n", *(_section(folder, about) for folder, about in found)]
    return "\n".join(sections)


def _section(folder: Path, about: dict[str, Any]) -> str:
    title = about["title"][0].upper() + about["title"][1:]
    pipeline, table = _text(folder / "pipeline.yaml").strip(), _text(folder / "table.sql").strip()
    records = "\n".join(_records(folder))
    schemas = "".join(_schema(path, folder) for path in sorted(folder.rglob("*")) if path.suffix in SCHEMAS)
    return (
        f"### {title}\n\n{about['says']}\n\n```yaml\n{pipeline}\n```\n\n{schemas}"
        f"```sql\n{table}\n```\n\n```text\n{records}\n```\n"
    )


def _schema(path: Path, folder: Path) -> str:
    return f"`{path.relative_to(folder)}`:\n\n```{SCHEMAS[path.suffix]}\n{path.read_text().strip()}\n```\n\n"


def _records(folder: Path) -> list[str]:
    became: dict[tuple[int, int], list[str]] = defaultdict(list)
    for row in _lines(folder / "rows.jsonl"):  # rows of counts are of no record
        place = (row.pop("_partition", 0), row.pop("_offset", -1))
        table = f"{row.pop('_table')} " if "_table" in row else ""
        became[place].append(f"{table}{json.dumps(row, ensure_ascii=False)}")
    for row in _lines(folder / "rejected.jsonl"):
        column = f"{row['column']}: " if "column" in row else ""
        became[row.get("partition", 0), row["offset"]].append(f"rejected: {column}{row['reason']}")
    found: list[str] = []
    offsets: dict[int, int] = defaultdict(int)
    for record in _lines(folder / "records.jsonl"):
        partition = record.get("partition", 0)
        found.append(_shortened(_record(record)))
        found += [f"    {_shortened(text)}" for text in became[partition, offsets[partition]] or ["no row"]]
        offsets[partition] += 1
    return found


def _record(record: dict[str, Any]) -> str:
    head = "".join(
        f"{name} {json.dumps(record[name], ensure_ascii=False)}, "
        for name in ("key", "headers")
        if name in record
    )
    if "hex" in record:
        return f"{head}{record['hex']}"
    if "json" in record:
        return f"{head}{json.dumps(record['json'], ensure_ascii=False)}"
    return f"{head}{'null' if record['value'] is None else record['value']}"


def _shortened(text: str) -> str:
    line = text.replace("\r", "\\r").replace("\n", "\\n").encode(errors="backslashreplace").decode()
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _text(path: Path) -> str:
    text = path.read_text() if path.exists() else ""
    for placeholder, value in PLACEHOLDERS.items():
        text = text.replace(placeholder, value)
    return text


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _text(path).splitlines() if line.strip()]
