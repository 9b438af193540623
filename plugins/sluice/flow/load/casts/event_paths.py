"""Where in an event the fields of a table's columns are, and how ClickHouse reaches them. Pure.

The event and every object inside it that columns read are nodes of a tree. Each node is extracted once,
into a tuple of its fields' texts (NULL: missing, or null). A field may be a container of texts (parsed.py);
its whole text is extracted only where that is not all there is to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sluice.clients.clickhouse.sql import Sql, either, identifier, listed, literal, summed, table
from sluice.field_path import MOST_NAMES, FieldPath, header_of, names_of

RESERVED = "null"
"""The one name that an element of a tuple cannot have: no column takes a field of that name."""

# A JSON string whose text begins like an object or an array is spelled with one of these.
_QUOTED = ('"{', '"[', '"\\u007', '"\\u005')
_NESTED = literal(r"[\[,]\s*\[")
NESTED = Sql(f"multiMatchAny(_payload, [{_NESTED}]) AS nested_arrays")
"""Whether an array may hold an array."""
_TEXT = "Nullable(String)"
NULLS = Sql("(position(_payload, 'null') > 0) AS any_null")
"""Whether a field may be null, and not missing."""
QUOTED = Sql(f"multiSearchAny(_payload, [{listed(map(literal, _QUOTED))}]) AS quoted_brackets")


@dataclass
class HeaderNode:
    """A record's headers, which stand beside the event: a tuple of those that columns read, as texts."""

    fields: dict[str, None] = field(default_factory=dict)
    parsed: Mapping[str, str] = field(default_factory=dict)

    def element(self, path: str) -> str:
        return f"tupleElement(headers, {list(self.fields).index(path) + 1})"

    text_of = element

    def quoted(self, path: str) -> str:
        """A header's text is never a JSON string: a container takes what it says."""
        return "0"

    def there(self, path: str) -> str:
        return f"arrayExists(h -> tupleElement(h, 1) = {_name(path)}, _headers)"

    @property
    def extracted(self) -> Sql:
        """Of each name the last header, as everywhere."""
        last = (f"arrayLast(h -> tupleElement(h, 1) = {_name(path)}, _headers)" for path in self.fields)
        return Sql(f"tuple({listed(f'tupleElement({header}, 2)' for header in last)}) AS headers")


def _name(path: str) -> Sql:
    return literal(header_of((path,)) or "")


@dataclass
class ObjectNode:
    """An object: its place in the tree, the text that holds it, its key there, and its fields.

    `parsed` are the types of fields that are containers of texts (parsed.py), `source` is the event's text.
    """

    place: tuple[int, ...] = ()
    path: FieldPath = ()
    fields: dict[str, ObjectNode] = field(default_factory=dict)
    headers: HeaderNode = field(default_factory=lambda: HeaderNode())
    source: str = "_payload"
    parsed: dict[str, str] = field(default_factory=dict)

    @property
    def tuple(self) -> str:
        return self._named("fields")

    @property
    def text(self) -> str:
        return self._named("text") if self.place else self.source

    @property
    def stray(self) -> str:
        """Whether something is there that is no object."""
        return self._named("stray")

    @property
    def unfit(self) -> str:
        return self._named("unfit")

    @property
    def keys(self) -> str:
        return self._named("keys")

    @property
    def odd(self) -> str:
        """The whole texts of the parsed fields, NULL where all of them are fine."""
        return self._named("odd")

    def text_of(self, name: str) -> str:
        """Returns the text of a field; of a parsed one only where one of them is not fine."""
        if name not in self.parsed:
            return self.element(name)
        return f"tupleElement({self.odd}, {list(self.parsed).index(name) + 1})"

    def quoted(self, name: str) -> str:
        """The condition that a field's value is a string."""
        return f"JSONType(ifNull({self.text}, ''), {literal(name)}) = 'String'"

    def there(self, name: str) -> str:
        """The condition that a field is there, maybe as null; where it has no value."""
        return f"has({self.keys}, {literal(name)})"

    def _named(self, what: str) -> str:
        return "_".join([what, *map(str, self.place)])

    def element(self, name: str) -> str:
        return f"tupleElement({self.tuple}, {list(self.fields).index(name) + 1})"

    def add(self, path: FieldPath) -> None:
        if header_of(path) is not None:
            self.headers.fields.setdefault(path[0], None)
        elif path:
            name, *rest = path
            inner = self.fields.setdefault(
                name, ObjectNode((*self.place, len(self.fields) + 1), (*self.path, name))
            )
            inner.add(tuple(rest))

    def inner(self) -> list[ObjectNode]:
        """Returns the objects inside it that columns read."""
        return [node for node in self.fields.values() if node.fields]

    def node_of(self, path: FieldPath) -> ObjectNode | HeaderNode:
        """Returns what holds the last field of the path."""
        if header_of(path) is not None:
            return self.headers
        return self.fields[path[0]].node_of(path[1:]) if len(path) > 1 else self


def tree_of(
    paths: Iterable[FieldPath],
    parsed: Mapping[FieldPath, str] = MappingProxyType({}),
    source: str = "_payload",
) -> ObjectNode:
    """Returns the tree of the paths. `parsed` are the types of fields that may be containers of texts. They
    are where nothing else needs the field's text. `source` is the event's text."""
    root, asked = ObjectNode(source=source), list(paths)
    for path in asked:
        root.add(path)
    for path, kind in parsed.items():
        node = root.node_of(path)
        if (
            isinstance(node, ObjectNode)
            and kind
            and asked.count(path) == 1
            and not node.fields[path[-1]].fields
        ):
            node.parsed[path[-1]] = kind
    return root


def extract(root: ObjectNode, marked: Sequence[FieldPath] = ()) -> list[list[Sql]]:
    """Returns the stages (columns.py) that give the texts of all nodes' fields, outer nodes first. Of nodes
    that hold a path of `marked` that is also the keys they have, where such a field is NULL."""
    stages, level = [[root.headers.extracted]] if root.headers.fields else [], [root] if root.fields else []
    while level:
        stages.append([_fields(node) for node in level])
        stages.append([part for node in level for part in (*_keys(node, marked), *_inside(node))])
        level = [inner for node in level for inner in node.inner()]
    return stages


def _guarded(node: ObjectNode) -> str:
    text = node.text
    none = either(f"isNull({text})", node.stray)
    return f"if({none}, '', assumeNotNull({text}))" if node.place else text


def _fields(node: ObjectNode) -> Sql:
    kinds = {name: f"Variant({kind}, String)" for name, kind in node.parsed.items()}
    names = listed(f"{identifier(name)} {kinds.get(name, _TEXT)}" for name in node.fields)
    return Sql(f"JSONExtract({_guarded(node)}, {literal(f'Tuple({names})')}) AS {node.tuple}")


def odd_texts(root: ObjectNode, fine: Mapping[FieldPath, str]) -> list[Sql]:
    """Returns the whole texts of each node's parsed fields, extracted where one of their conditions `fine`
    does not hold."""
    return [_odd(node, fine) for node in (root, *nodes(root)) if node.parsed]


def _odd(node: ObjectNode, fine: Mapping[FieldPath, str]) -> Sql:
    kind = literal(f"Tuple({listed(f'{identifier(name)} {_TEXT}' for name in node.parsed)})")
    all_ = summed([fine[(*node.path, name)] for name in node.parsed])
    texts = f"JSONExtract({_guarded(node)}, {kind})"
    return Sql(f"if(({all_}) = {len(node.parsed)}, defaultValueOfTypeName({kind}), {texts}) AS {node.odd}")


def _keys(node: ObjectNode, marked: Sequence[FieldPath]) -> list[Sql]:
    names = sorted({path[-1] for path in marked if path[:-1] == node.path})
    if not names:
        return []
    null = summed([f"isNull({node.element(name)})" for name in names])
    keys = f"JSONExtractKeys({_guarded(node)})"
    return [Sql(f"if(any_null * ({null}) > 0, {keys}, emptyArrayString()) AS {node.keys}")]


def _inside(node: ObjectNode) -> list[Sql]:
    expressions = []
    for inner in node.inner():
        key = inner.path[-1]
        expressions.append(Sql(f"{node.element(key)} AS {inner.text}"))
        expressions.append(Sql(f"{_stray(node.text, key, inner.text)} AS {inner.stray}"))
    return expressions


def _stray(parent: str, key: str, text: str) -> str:
    """The text of a string may resemble an object's; the parser decides, and is called rarely."""
    kind = f"JSONType(ifNull({parent}, ''), {literal(key)})"
    seldom = f"if(quoted_brackets, {kind} NOT IN ('Object', 'Null'), 0)"
    return f"if(startsWith(ifNull({text}, '{{'), '{{'), {seldom}, 1)"


def nodes(node: ObjectNode) -> list[ObjectNode]:
    """Returns all objects inside it that columns read, outer ones first."""
    return [descendant for inner in node.inner() for descendant in (inner, *nodes(inner))]


# What a column that is added may be called.

NAME_BYTES = 100


def refusal(name: str, columns: Collection[str]) -> str:
    """Returns why no column of a table that has `columns` can have the name; empty where one can."""
    if name == "" or RESERVED in names_of(name) or len(names_of(name)) > MOST_NAMES:
        return "no column can have this name"
    if header_of(names_of(name)) is not None:
        return "a column of this name takes the record's header"
    if name.startswith("_"):
        return "names that begin with _ are Sluice's and ClickHouse's own"
    if not name.isprintable() or len(name.encode()) > NAME_BYTES:
        return f"a name has at most {NAME_BYTES} bytes, all of them visible"
    if name in columns:
        return "its name is that of a column that another field fills"
    near = next((one for one in sorted(columns) if _within(name, one) or _within(one, name)), "")
    return f"ClickHouse would take it for a part of column {near}" if near else ""


def _within(name: str, outer: str) -> bool:
    return name.startswith(f"{outer}.")


def remedy(of: str, name: str, kind: str, columns: Collection[str], otherwise: str) -> str:
    """Returns the statement that adds a column to table `of`; where no column can have its name `otherwise`,
    with the reason."""
    why = refusal(name, columns)
    return f"{otherwise}: {why}" if why else f"ALTER TABLE {table(of)} ADD COLUMN {identifier(name)} {kind}"
