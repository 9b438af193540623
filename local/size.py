"""How large the project is: `python -m local.size`."""

import ast
from collections.abc import Iterable
from pathlib import Path

from local.versions import ROOT

LIBRARY = ROOT / "plugins" / "sluice"
FEW_LINES = 40
GENERATED = ROOT / "docs" / "guide" / "reference"


def lines(files: Iterable[Path]) -> int:
    return sum(len(file.read_text().splitlines()) for file in files)


def lines_of_code(file: Path) -> int:
    """Without docstrings, comments and empty lines."""
    text = file.read_text()
    said = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    numbered = enumerate(text.splitlines(), 1)
    return sum(
        1 for n, line in numbered if n not in said and line.strip() and not line.strip().startswith("#")
    )


def measured() -> dict[str, int]:
    library = sorted(LIBRARY.rglob("*.py"))
    modules = [file for file in library if file.name != "__init__.py"]
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    return {
        "lines of Python in plugins/sluice": lines(library),
        "files there": len(library),
        f"of these below {FEW_LINES} lines of code": sum(lines_of_code(file) < FEW_LINES for file in modules),
        "lines of tests": lines((ROOT / "tests").rglob("*.py")),
        "words of documents, without what is generated": sum(
            len(page.read_text().split()) for page in pages if page.parent != GENERATED
        ),
    }


if __name__ == "__main__":
    for what, number in measured().items():
        print(f"{number:>8,}  {what}")
