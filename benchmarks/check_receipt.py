"""Checks the receipt of an erasure against the lake, with nothing of Sluice: Parquet is read with pyarrow.

    python benchmarks/check_receipt.py LAKE/PIPELINE RECEIPT VALUE …

Exits with 1 and a line for each thing that is not as the receipt says; nothing may name a VALUE any more.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def check_unit(lake: Path, unit: dict[str, Any]) -> Iterator[str]:
    """The manifest that stands is the receipt's, its files are there byte by byte, and old ones are not."""
    name = f"{unit['slice']}/{unit['cluster']}"
    manifest = json.loads((lake / "_slices" / name / "manifest.json").read_text())
    if f"{manifest['generation']}-{manifest['attempt']}" != unit["manifest_after"]:
        yield f"{name}: landed again since: the receipt says {unit['manifest_after']}"
        return
    forgotten = (manifest.get("forgotten") or {}).get("rejected")
    rejected = [] if forgotten else manifest["rejected"]
    listed = {file["key"]: file["sha256"] for file in (*manifest["files"], *rejected)}
    listed |= {f["key"]: f["sha256"] for one in manifest["traffic"] for f in one["files"]}
    if listed != {file["key"]: file["sha256"] for file in unit["files_after"]}:
        yield f"{name}: the manifest names other files than the receipt"
    for file in unit["files_after"]:
        path = lake / file["key"]
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
            yield f"{name}: {file['key']} is missing, or has other bytes"
    for file in unit["files_before"]:
        if file["key"] not in listed and (lake / file["key"]).exists():
            yield f"{name}: {file['key']} is still there"
    yield from check_rows(name, manifest, unit)


def check_rows(name: str, manifest: dict[str, Any], unit: dict[str, Any]) -> Iterator[str]:
    """Records read = landed + rejected + erased (where a record is a row), and as many went as were found.
    Of rejected records that the lake forgot before no file has a row."""
    if manifest["rows"] is not None:
        return
    landed = sum(file["rows"] for file in manifest["files"])
    gone = sum(file["rows"] for file in manifest["rejected"])
    gone += sum(sum(one["rejected_records"].values()) for one in manifest["without_bytes"])
    if manifest["read"] != landed + gone + manifest["erased"]:
        yield f"{name}: {manifest['read']} records read, {landed} landed, {gone} rejected, others erased"
    if unit["records_erased"] != unit["rows_erased"] + unit["rejected_erased"]:
        yield f"{name}: {unit['records_erased']} records are erased, and others were found"


def check_values(lake: Path, values: list[str]) -> Iterator[str]:
    """No object of the lake has one of the values, in its bytes or in its rows."""
    for path in sorted(path for path in lake.rglob("*") if path.is_file()):
        texts = [path.read_bytes()]
        if path.suffix == ".parquet":
            for batch in pq.ParquetFile(path).iter_batches():
                texts += [repr(column.to_pylist()).encode() for column in batch.columns]
        for value in values:
            if any(value.encode() in text for text in texts):
                yield f"{path.relative_to(lake)} still has a value"


def main(words: list[str]) -> int:
    lake, receipt, values = Path(words[0]), json.loads(Path(words[1]).read_text()), words[2:]
    wrong = [line for unit in receipt["units"] for line in check_unit(lake, unit)]
    total = sum(unit["records_erased"] for unit in receipt["units"])
    if total != receipt["erased"]["records"]:
        wrong.append(f"{total} records of all units, and the receipt says {receipt['erased']['records']}")
    wrong += receipt["left"]
    wrong += check_values(lake, values)
    print("\n".join(wrong) or f"as the receipt says: {len(receipt['units'])} units, {total} records erased")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
