"""Reads YAML of a bounded size, for a pipeline file may be somebody else's, and writes words of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 1 << 20
MOST_VALUES = 100_000  # with each alias counted as what it stands for


class NotYaml(ValueError):
    """What is wrong with the text, in one line."""


def scalar(text: str) -> str:
    """`text` as a key or a value of a pipeline file, in quotes where YAML wants them."""
    width = len(text) * 10 + 80  # no line is folded
    dumped: str = yaml.safe_dump(
        [text], default_flow_style=True, allow_unicode=text.isprintable(), width=width
    )
    return dumped.strip()[1:-1]


class _Loader(yaml.SafeLoader):
    """YAML forbids a key that is there twice; PyYAML takes the last one and says nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                problem = f"{key.value!r} is there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def load(path: Path) -> Any:
    """The content of the file. Raises OSError, NotYaml."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise NotYaml(f"more than {MOST_BYTES >> 20} MiB: expected a pipeline file")
    try:
        return _content(data.decode())
    except RecursionError:
        raise NotYaml("nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # a date or a number that is none is a ValueError
        if isinstance(error, NotYaml):
            raise
        raise NotYaml("not YAML: " + " ".join(str(error).split())) from error


def _content(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _values(node, {}) > MOST_VALUES:
            raise NotYaml(f"its aliases (*name) stand for more than {MOST_VALUES:,} values")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values `node` has with its aliases written out. Raises NotYaml for one within itself."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = -1
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_values(part, known) for part in parts)
    if known[id(node)] < 0:
        raise NotYaml("an alias (*name) stands within what it stands for")
    return known[id(node)]
