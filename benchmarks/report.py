"""Makes docs/guide/performance.md and its plot out of benchmarks/results.json.

python -m benchmarks.report
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import load
from local.versions import ROOT

PAGE = ROOT / "docs" / "guide" / "performance.md"
PLOT = ROOT / "docs" / "images" / "performance.svg"
INTRODUCTION = Path(__file__).with_name("performance.md")
# What is compared with what: (case, bound, limit, what the ratio says); `hour/land` is a step of a case.
RATIOS = (
    ("landing", "bare read", "≤ 1.3", "landing / bare Spark read, both early in their Spark"),
    ("landing again", "bare read again", "≤ 2.2", "landing / bare Spark read, both warm"),
    ("plain job", "landing", "≥ 2.5", "the job written by hand / landing"),
    ("load", "typed insert", "≤ 2.3", "load through the protocol / bare typed INSERT"),
    ("hour", "hour/land", "≤ 2", "the whole hour / its landing alone, each with the JVM's start"),
    ("spread", "hour", "< 3", "as many events over 8,760 hours / in one hour"),
)
STEPS = ("resolve", "land", "load", "verify", "publish")
COLOURS = ("#6b7280", "#2563eb", "#0d9488", "#d97706", "#9333ea")

Found = Mapping[str, Mapping[str, Any]]


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def results(found: Found) -> str:
    """The whole runs; benchmarks/README.md tells of records that are made to hurt."""
    rows = []
    for name, one in sorted(found.items(), key=lambda item: item[1]["seconds"]):
        used = one["used"]
        if not used or name.startswith("hostile_"):
            continue
        per_second = f"{one['rows'] / one['seconds']:,.0f}" if one["rows"] else "–"
        beyond = f"{used['total'] - used['idle']:,.0f}"
        rows.append((name, one["what"], one["seconds"], per_second, beyond))
    return table(("case", "what", "seconds", "rows/s", "MB beyond idle"), rows)


def ratios(found: Found) -> str:
    took = {name: one["seconds"] for name, one in found.items()}
    took |= {f"{name}/{step}": it for name, one in found.items() for step, it in one["steps"].items()}
    rows = [
        (text, f"{took[case] / took[bound]:.2f}", limit)
        for case, bound, limit, text in RATIOS
        if case in took and bound in took
    ]
    return table(("ratio", "seconds / seconds", "wanted"), rows)


def draw(found: Found) -> None:
    """The steps of each case as one bar."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    staged = {name: one["steps"] for name, one in found.items() if set(one["steps"]) & set(STEPS)}
    figure, axes = pyplot.subplots(figsize=(9, 0.5 * len(staged) + 1.2))
    left = dict.fromkeys(staged, 0.0)
    for step, colour in zip(STEPS, COLOURS, strict=True):
        seconds = [steps.get(step, 0.0) for steps in staged.values()]
        axes.barh(list(staged), seconds, left=list(left.values()), label=step, color=colour)
        left = {name: left[name] + took for name, took in zip(left, seconds, strict=True)}
    axes.set_xlabel("seconds")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=len(STEPS), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    figure.tight_layout()
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams["svg.hashsalt"] = "sluice"
    figure.savefig(PLOT, metadata={"Date": None})


def machines(found: Found) -> str:
    one = max((result["machine"] for result in found.values()), key=len)
    return ", ".join(f"{name} {value}" for name, value in one.items() if name != "load_average")


def main() -> None:
    found = load()
    if not found:
        raise SystemExit("nothing was measured yet: run `make bench`")
    draw(found)
    parts = [
        INTRODUCTION.read_text().strip(),
        f"Machine: {machines(found)}.",
        results(found),
        f"![seconds by step]({os.path.relpath(PLOT, PAGE.parent)})",
        "## Ratios",
        ratios(found),
    ]
    PAGE.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
