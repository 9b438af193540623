"""Compares the lists of docs/guide/production.md and metrics.md with the code and rules that they explain."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import get_args

import yaml

from sluice.config.pipeline import PageSettings, Payloads
from sluice.watch.problems import ProblemKind

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs/guide/production.md").read_text()
ALARMS = (ROOT / "docs/guide/metrics.md").read_text()
METRICS = (ROOT / "docs/guide/reference/metrics.md").read_text()
# What S3 asks for: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
ACTIONS = {
    "get_object": {"s3:GetObject"},
    "head_object": {"s3:GetObject"},
    "download_fileobj": {"s3:GetObject"},
    "put_object": {"s3:PutObject"},
    "copy": {"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"},
    "create_multipart_upload": {"s3:PutObject"},
    "upload_part": {"s3:PutObject"},
    "complete_multipart_upload": {"s3:PutObject"},
    "abort_multipart_upload": {"s3:AbortMultipartUpload"},
    "delete_object": {"s3:DeleteObject"},
    "delete_objects": {"s3:DeleteObject"},
    "get_paginator": {"s3:ListBucket"},  # of list_objects_v2
}


def rows(heading: str, document: str = DOCUMENT) -> dict[str, str]:
    """First cell to second cell of the table whose first column is called so."""
    lines = document.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith(f"| {heading} |")) + 2
    found: dict[str, str] = {}
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        first, second, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        assert first not in found
        found[first] = second
    return found


def asked_of_s3() -> set[str]:
    """The methods of the S3 client that the lake calls."""
    found: set[str] = set()
    for path in (ROOT / "plugins/sluice/clients/lake").glob("s3*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            owner = node.value if isinstance(node, ast.Attribute) else None
            name = getattr(owner, "attr", getattr(owner, "id", ""))
            if name in ("client", "_client"):
                found.add(node.attr)
    return found


def test_each_alert_is_explained_with_its_severity():
    groups = yaml.safe_load((ROOT / "monitoring/alerts.yaml").read_text())["groups"]
    alerts = {rule["alert"]: rule["labels"]["severity"] for group in groups for rule in group["rules"]}
    assert {name: told.split(":")[0] for name, told in rows("alert", METRICS).items()} == alerts


def test_each_kind_of_problem_is_explained():
    assert set(rows("problem", ALARMS)) == {str(kind) for kind in ProblemKind}


def test_the_policy_allows_what_the_lake_asks_for_and_no_more():
    policy = json.loads(re.search(r"```json\n(.*?)```", DOCUMENT, re.S)[1])
    allowed = {action for statement in policy["Statement"] for action in statement["Action"]}
    assert allowed == set.union(*(ACTIONS[method] for method in asked_of_s3()))
    everywhere = {s["Resource"] for s in policy["Statement"]}
    assert everywhere == {"arn:aws:s3:::BUCKET/PREFIX/*", "arn:aws:s3:::BUCKET"}


def test_every_folder_of_the_lake_has_its_line_in_case_of_loss():
    lost = " ".join(rows("lost"))
    design = (ROOT / "docs/design/index.md").read_text()
    folders = set(re.findall(r"^  (_\w+)/", design, re.M)) - {"_attempts", "_doctor"}
    assert folders - {"_slices"} <= set(re.findall(r"`(_\w+)/`", lost))
    assert "a manifest" in lost


def test_each_setting_of_payloads_is_explained():
    """The default first, and what SECURITY.md says of the right to see them."""
    assert "`page: {payloads: …}`" in DOCUMENT
    told = rows("payloads")
    assert [name.strip("`") for name in told] == ["masked", "hidden", "shown"]
    assert {name.strip("`") for name in told} == set(get_args(Payloads))
    assert told["`masked`"].startswith("the default") and PageSettings().payloads == "masked"
    assert "Sluice Payloads" in told["`shown`"] and "Sluice Payloads" in (ROOT / "SECURITY.md").read_text()
