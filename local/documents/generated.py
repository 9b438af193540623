"""Writes the documents that are made from code: `python -m local.documents.generated`.

tests/unit/repository/test_generated_documents.py fails when one of them is not what its source gives.
"""

from __future__ import annotations

import json
from pathlib import Path

from local.documents import accepted, commands, pipeline_file, since
from local.versions import ROOT
from sluice.config.explain import json_schema
from sluice.metrics.table import page as metrics_page

GUIDE = ROOT / "docs" / "guide"


def generated() -> dict[Path, str]:
    """The content of each document that is made from code."""
    return {
        GUIDE / "reference" / "pipeline-file.md": pipeline_file.page(),
        since.FILE: since.text(pipeline_file.since()),
        GUIDE / "reference" / "commands.md": commands.page(),
        ROOT / "include" / "pipelines" / "pipeline.schema.json": json.dumps(json_schema(), indent=1) + "\n",
        GUIDE / "reference" / "metrics.md": metrics_page(),
        GUIDE / "reference" / "accepted.md": accepted.page(),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"sluice: {path.relative_to(ROOT)} is written")
