"""Reads YAML of a bounded size, for a pipeline file may be hostile, and writes words of one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml
from pydantic import SecretBytes, SecretStr

from sluice.config.mistakes import below
from sluice.errors import WrongPipeline
from sluice.named_file import read_named, read_named_text

MOST_VALUES = 100_000  # with each alias counted as what it stands for
MOST_DIGITS = 1000  # of a whole number, in whatever base; Python reads and prints 4,300 decimal ones


class NotYaml(ValueError):
    """What is wrong with the text, in one line; `line` and `column` count from 1, and are 0 for all of it."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        super().__init__(problem)
        self.line, self.column = line, column


def scalar(text: str) -> str:
    """`text` as a key or a value of a pipeline file, in quotes where YAML wants them."""
    width = len(text) * 10 + 80  # no line is folded
    plain = text.isprintable()
    dumped: str = yaml.safe_dump(
        [text],
        default_flow_style=True,
        default_style=None if plain else '"',  # the only style that keeps a line break on one line
        allow_unicode=plain,
        width=width,
    )
    return dumped.strip()[1:-1]


def is_text(text: str) -> bool:
    """Returns whether UTF-8 can hold it: a surrogate by itself is no character."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


class _Loader(yaml.SafeLoader):
    """YAML forbids a key that is there twice; PyYAML takes the last one and says nothing. Of a value that is
    not what its tag says, PyYAML raises whatever its constructor happens to."""

    def fetch_tag(self) -> None:
        mark = self.get_mark()
        problem = "a YAML tag (!…), which no value here needs: leave it out, and put a text with ! in quotes"
        raise NotYaml(problem, mark.line + 1, mark.column + 1)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # which is refused below
            if key.value in names:
                problem = f"{key.value!r} is there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            names.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        if isinstance(node.value, str) and not is_text(node.value):
            mark = node.start_mark
            problem = f"half a surrogate pair, which is no text: {node.value!r}"
            raise NotYaml(problem, mark.line + 1, mark.column + 1)
        return super().construct_scalar(node)

    def construct_bounded(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > MOST_DIGITS:
            mark = node.start_mark
            raise NotYaml(f"a number of more than {MOST_DIGITS:,} digits", mark.line + 1, mark.column + 1)
        return super().construct_yaml_int(node)

    def construct_finite(self, node: yaml.ScalarNode) -> float:
        try:
            return super().construct_yaml_float(node)
        except OverflowError:  # of one in base 60: `1:59:59.5`
            mark = node.start_mark
            raise NotYaml("a number that is too large", mark.line + 1, mark.column + 1) from None


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_bounded)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_finite)


def load(path: Path) -> Any:
    """Returns the content of the file. Raises OSError, NotYaml."""
    return parse(read_named(path))


def parse(content: bytes | str) -> Any:
    """Returns what the text says. Raises NotYaml."""
    try:
        return _content(content.decode() if isinstance(content, bytes) else content)
    except RecursionError:
        raise NotYaml("nested too deeply") from None
    except NotYaml:
        raise
    except yaml.MarkedYAMLError as error:
        problem = ": ".join(part for part in (error.context, error.problem) if part)
        mark = error.problem_mark or error.context_mark
        at = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise NotYaml("not YAML: " + " ".join(problem.split()), *at) from error
    except (yaml.YAMLError, ValueError) as error:  # a date or a number that is none is a ValueError
        raise NotYaml("not YAML: " + " ".join(str(error).split())) from error


def nodes(path: Path) -> Nodes:
    """Returns the file's parts with their places; the file has been read as YAML before."""
    return Nodes(yaml.compose(read_named_text(path), _Loader))


class Nodes:
    """The parts of a file, each of which is looked through once."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._root = root
        self._parts: dict[int, dict[str, tuple[yaml.Mark, yaml.Node]]] = {}

    def line_and_column(self, place: Sequence[int | str]) -> tuple[int, int]:
        """Returns where the value at `place` begins, or the last one on the way to it that is there; both
        count from 1."""
        node, line, column = self._root, 0, 0
        for part in place:
            child = self._parts_of(node).get(str(part))
            if child is None:
                break
            mark, node = child
            line, column = mark.line, mark.column
        return line + 1, column + 1

    def _parts_of(self, node: yaml.Node | None) -> dict[str, tuple[yaml.Mark, yaml.Node]]:
        parts = self._parts.get(id(node))
        if parts is None:
            parts = self._parts[id(node)] = {}
            for name, mark, value in _children(node):
                parts.setdefault(name, (mark, value))
        return parts


def _children(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Mark, yaml.Node]]:
    """Yields (key or position, where that is, value) of a mapping's or a list's parts."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                yield from _children(value)
            else:
                yield str(key.value), key.start_mark, value
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield str(number), item.start_mark, item


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


def _values(node: yaml.Node, counts: dict[int, int]) -> int:
    """Returns how many values `node` has with its aliases written out. Raises NotYaml for one within
    itself."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = -1
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        counts[id(node)] = 1 + sum(_values(part, counts) for part in parts)
    if counts[id(node)] < 0:
        raise NotYaml("an alias (*name) stands within what it stands for")
    return counts[id(node)]


# Variables of the environment in pipeline files: `${NAME}` and `${NAME:-default}`.
#
# Whoever may see a pipeline sees its topics, tables and places, and whoever writes its file need not know the
# secrets of the machine that reads it. So a file can name only what was set for it.

PREFIX = "SLUICE_VAR_"
LISTED = "SLUICE_VARIABLES"
_OWN = ("SLUICE_LAKE", "SLUICE_HOME")
_LOGIN = re.compile(r"(^|_)(CONN|DSN)(_|$)")  # AIRFLOW_CONN_… is a connection with its password
VARIABLE = re.compile(r"\$\{(\w+)(?::-((?:[^{}]|\$\{[^{}]*\})*))?\}")


def refusal(name: str, hidden: bool, environment: Mapping[str, str]) -> str | None:
    """Returns why a pipeline file may not name the variable, or None. `hidden`: where it stands, values are
    never shown. Pure."""
    listed = re.split(r"[\s,]+", environment.get(LISTED, ""))
    if not (name.startswith(PREFIX) or name in _OWN or name in listed):
        return (
            f"${{{name}}} is not for pipeline files: call it {PREFIX}…, or have whoever runs Sluice list it "
            f"in the variable {LISTED}"
        )
    if not hidden and (names_secret(name) or _LOGIN.search(name)):
        return (
            f"${{{name}}} is called like a secret, which all who see the pipeline would see: secrets "
            "come from connections"
        )
    return None


def expand(
    value: Any, environment: Mapping[str, str], path: Path, hint: Any, place: tuple[str, ...] = ()
) -> Any:
    """Replaces the variables in every text of a file's `value`, which stands at `place` where the model has
    `hint`; a default may hold one again. Raises WrongPipeline."""
    if isinstance(value, dict):
        return {
            k: expand(v, environment, path, below(hint, str(k)), (*place, str(k))) for k, v in value.items()
        }
    if isinstance(value, list):
        return [expand(item, environment, path, below(hint, None), place) for item in value]
    if not isinstance(value, str):
        return value
    hidden = takes_secret(hint)

    def replace(variable: re.Match[str]) -> str:
        refused = refusal(variable[1], hidden, environment)
        if refused:
            raise WrongPipeline(str(path), ".".join(place), refused)
        if variable[1] in environment:
            return environment[variable[1]]
        if variable[2] is None:
            raise WrongPipeline(str(path), ".".join(place), f"the environment has no {variable[1]}")
        return VARIABLE.sub(replace, variable[2])

    return VARIABLE.sub(replace, value)


# Recognizes what holds a secret: keys by what the model says, settings of others by their names. Pure.
ON_COMMAND_LINE = (
    "would stand on Spark's command line, which `ps` shows to everybody on the machine: put it into "
    "spark-defaults.conf, in the folder that SPARK_CONF_DIR names, where only its owner can read it"
)
_SECRET = re.compile(
    r"password|passwd|passphrase|secret|token|credential|(access|account|private|api)[._-]?key"
    r"|(^|[._-])(key|sas)([._-]|$)|(?<!by)pass([._-]|$)|(?<=.)(?<!old)pwd([._-]|$)|auth$",
    re.IGNORECASE,
)
# A place where a secret is, or a fact about one, is none itself. `PWD` and `OLDPWD` are a shell's folders.
_ABOUT = re.compile(
    r"(file|path|location|provider|class|principal|enabled|required|length|bits|size|type|format|interval"
    r"|ratio|limit|client[._-]?auth)$",
    re.IGNORECASE,
)
# From the beginning of each word, and never back: linear in the text.
_ASSIGNED = re.compile(r"(?<![\w.-])([\w.-]++)\s*+=")


def takes_secret(hint: Any) -> bool:
    """Returns whether a text that stands where the model has `hint` may be a secret: it says so
    (`SecretStr`), or takes anything (`Any`). A model says it of each of its own keys."""
    if hint is Any:
        return True
    if not inspect.isclass(hint):
        return any(map(takes_secret, get_args(hint)))
    if is_dataclass(hint):
        return any(map(takes_secret, get_type_hints(hint, include_extras=True).values()))
    return issubclass(hint, SecretStr | SecretBytes)


def names_secret(name: str) -> bool:
    """`spark.hadoop.fs.s3a.secret.key`, but not `spark.authenticate.secret.file`."""
    return _SECRET.search(name) is not None and _ABOUT.search(name) is None


def assigns_secret(text: str) -> bool:
    """`-Djavax.net.ssl.trustStorePassword=…`."""
    return any(names_secret(name) for name in _ASSIGNED.findall(text))
