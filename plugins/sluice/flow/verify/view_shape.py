"""What can be said of the rows that a view gives, whatever the blocks in which its source's rows come. Pure.

The server carries out a view's SELECT block by block, and how rows were cut into blocks is not stored:
count() of a block is a part of a sum, max(n) a part of a maximum, and avg(n) is not a part of anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.clients.clickhouse.query_tree import QueryNode, names, projection, pushed, queries
from sluice.clients.clickhouse.types import Type, parse

KEY = ""
_COLUMN = re.compile(r"COLUMN id: .*column_name: (?P<name>.*), result_type: .*, source_id: (?P<source>\d+)")
# The same rows give the same, in any order and cut in any way.
_ADDED = {"count": "sum", "countIf": "sum", "sum": "sum", "sumIf": "sum"}
_KEPT = {"min": "min", "minIf": "min", "max": "max", "maxIf": "max"}
_STATES = ("count", "sum", "min", "max", "uniq", "uniqExact")
_STATE = re.compile(rf"({'|'.join(_STATES)})(If)?(State|SimpleState)")
_TWICE = ("uniq", "uniqExact", "min", "max")  # a row that comes twice changes nothing
_CAST = re.compile(r"_?CAST|to(U?Int|Float|Decimal)\d+|toNullable|assumeNotNull")
_RESULT = re.compile(r"result_type: (?P<type>.*?)(?:, source_id: \d+)?$")
_SECTIONS = ("LIMIT", "OFFSET", "LIMIT BY", "QUALIFY", "WINDOW", "INTERPOLATE")
_BLOCKS = "depends on the blocks in which rows come"


class Uncertainty(Exception):
    """Why what an expression gives is not certain."""


@dataclass(frozen=True)
class ViewShape:
    """`one_by_one`: each row of the source gives rows of its own, and all of them stay.

    `columns`: how a column's values of one key are put together: KEY, `sum`, `min`, `max`, or the function
    that merges states (`uniqMerge`). `unsure` says of the others why they are not certain, and `why` of all
    rows.
    """

    one_by_one: bool = True
    columns: Mapping[str, str] = field(default_factory=dict)
    unsure: Mapping[str, str] = field(default_factory=dict)
    why: str = ""

    def role(self, name: str) -> str:
        """Raises Uncertainty."""
        if self.why or name in self.unsure:
            raise Uncertainty(self.why or self.unsure[name])
        return self.columns.get(name, KEY)


def shape_of(root: QueryNode, sources: Mapping[str, ViewShape], sure: Collection[str]) -> ViewShape:
    """Returns the shape of what the server carries out of a view's SELECT.

    `sources` are the tables whose rows a load computes, `sure` the functions that always give the same.
    """
    return _Reader(dict(sources), frozenset(sure) | {"arrayJoin"}, {}).select(pushed(root))


def together(shapes: Sequence[ViewShape]) -> ViewShape:
    """Returns the shape of a table that several views write to."""
    if len(shapes) == 1:
        return shapes[0]
    every = dict.fromkeys(name for shape in shapes for name in (*shape.columns, *shape.unsure))
    columns: dict[str, str] = {}
    unsure: dict[str, str] = {}
    for name in every:
        roles = {shape.columns.get(name, KEY) for shape in shapes}
        reasons = [shape.unsure[name] for shape in shapes if name in shape.unsure]
        if reasons or len(roles) > 1:
            unsure[name] = (*reasons, "its views give it in different ways")[0]
        columns[name] = roles.pop()
    why = next((shape.why for shape in shapes if shape.why), "")
    certain = {name: role for name, role in columns.items() if name not in unsure}
    return ViewShape(all(shape.one_by_one for shape in shapes), certain, unsure, why)


@dataclass(frozen=True)
class _Reader:
    """One SELECT; `known` are the shapes of what its FROM names, by the node's id."""

    sources: dict[str, ViewShape]
    sure: frozenset[str]
    known: dict[str, ViewShape]

    def select(self, node: QueryNode) -> ViewShape:
        if node.kind == "UNION":
            if "union_mode: UNION_ALL" not in node.text:
                return ViewShape(why=f"its UNION {_BLOCKS}")
            selects = queries(node)
            if any(names(pushed(inner)) != names(pushed(selects[0])) for inner in selects):
                return ViewShape(why="its UNION's SELECTs name their columns differently")
            return together([self.select(inner) for inner in selects])
        try:
            return replace(self, known={})._select(node)
        except Uncertainty as error:
            return ViewShape(why=str(error))

    def _select(self, node: QueryNode) -> ViewShape:
        sections = {child.text: child for child in node.children}
        for name in _SECTIONS:
            if name in sections:
                raise Uncertainty(f"{name} {_BLOCKS}")
        if "group_by_type: " in node.text or "with_totals" in node.text or "with_fill: 1" in text_of(node):
            raise Uncertainty("it adds rows of its own")
        [join_tree] = [child for child in node.children if child.text == "JOIN TREE"]
        [first] = join_tree.children
        one_by_one = self._from(first)
        source_shape = ViewShape(one_by_one)
        for condition in ("PREWHERE", "WHERE"):
            if condition in sections:
                self._expect_key(sections[condition], source_shape)
        if "HAVING" in sections and not always(sections["HAVING"]):
            self._expect_key(sections["HAVING"], source_shape)
        grouped = "GROUP BY" in sections or any(aggregates(part) for _, part in projection(node))
        return self._columns(node, source_shape, grouped, distinct="is_distinct: 1" in node.text)

    def _columns(self, node: QueryNode, source_shape: ViewShape, grouped: bool, distinct: bool) -> ViewShape:
        columns: dict[str, str] = {}
        unsure: dict[str, str] = {}
        for name, expression in projection(node):
            try:
                role = self._role(expression, source_shape)
                if distinct and role != KEY:
                    raise Uncertainty(f"DISTINCT {_BLOCKS}")
                columns[name] = role
            except Uncertainty as error:
                if "function_name: arrayJoin," in text_of(expression):  # how many rows there are, too
                    raise
                unsure[name] = str(error)
        return ViewShape(source_shape.one_by_one and not (grouped or distinct), columns, unsure)

    def _from(self, node: QueryNode) -> bool:
        """Notes what a place of the FROM gives; returns whether each row of the source is there once."""
        if node.kind == "TABLE":
            found = TABLE.fullmatch(node.text)
            name = found["name"] if found else ""
            if name not in self.sources:
                raise Uncertainty(f"it reads {name}")
            self.known[node.id] = self.sources[name]
        elif node.kind in ("QUERY", "UNION"):
            self.known[node.id] = self.select(node)
        elif node.kind == "ARRAY_JOIN":
            return self._array_join(node)
        elif node.kind == "JOIN":
            return self._join(node)
        else:
            raise Uncertainty(f"it reads {', '.join(tables(node, self.sources)) or 'more than its source'}")
        if self.known[node.id].why:
            raise Uncertainty(self.known[node.id].why)
        return self.known[node.id].one_by_one

    def _array_join(self, node: QueryNode) -> bool:
        [inner] = node.section("TABLE EXPRESSION")
        one_by_one = self._from(inner)
        for expression in node.section("JOIN EXPRESSIONS"):
            for column in expression.children:
                for part in column.children:
                    self._expect_key(part, ViewShape(one_by_one))
        self.known[node.id] = ViewShape(one_by_one)
        return one_by_one

    def _join(self, node: QueryNode) -> bool:
        """With LEFT each row of the source stays, once with ANY, with ALL as often as the other side says."""
        [left], [right] = node.section("LEFT TABLE EXPRESSION"), node.section("RIGHT TABLE EXPRESSION")
        others = ", ".join(tables(right, self.sources)) or "another table"
        if "kind: LEFT" not in node.text or not ("strictness: ALL" in node.text or "ANY" in node.text):
            raise Uncertainty(f"its rows depend on {', '.join(tables(node, self.sources)) or others}")
        foreign = ViewShape(why=f"it comes from {others}")
        self.known.update({inner.id: foreign for inner in (*right.walk(), node) if inner.id})
        return self._from(left) and "strictness: ANY" in node.text

    def _expect_key(self, node: QueryNode, source_shape: ViewShape) -> None:
        if self._role(node, source_shape) != KEY:
            raise Uncertainty(f"what is computed of an aggregate {_BLOCKS}")

    def _role(self, node: QueryNode, source_shape: ViewShape) -> str:
        """Raises Uncertainty."""
        if node.kind in ("QUERY", "UNION", "TABLE", "TABLE_FUNCTION"):
            raise Uncertainty(f"it reads {', '.join(tables(node, {})) or 'another table'}")
        column = _COLUMN.fullmatch(node.text)
        if column and not node.children:
            if column["source"] not in self.known:
                raise Uncertainty("it comes from elsewhere")
            return self.known[column["source"]].role(column["name"])
        if node.kind == "LAMBDA":
            self.known[node.id] = ViewShape()
        called = FUNCTION.match(node.text)
        if called and called["type"] == "aggregate":
            return self._aggregate(called["name"], node, source_shape)
        if called and called["type"] != "ordinary":
            raise Uncertainty(f"{called['name']}() OVER {_BLOCKS}")
        if called and called["name"] not in self.sure:
            raise Uncertainty(f"{called['name']}() may give another value each time")
        if called and _CAST.fullmatch(called["name"]) and (role := self._cast(node, source_shape)):
            return role
        for child in node.children:
            self._expect_key(child, source_shape)
        return KEY

    def _cast(self, node: QueryNode, source_shape: ViewShape) -> str:
        """`sum` for the cast of a sum that cuts off nothing: casts can be added up, too."""
        first, *_ = [part for child in node.section("ARGUMENTS") for part in child.children]
        results = [_RESULT.search(expression.text) for expression in (node, first)]
        exact = all(results) and keeps(*(result["type"] for result in results if result))
        return "sum" if exact and self._role(first, source_shape) == "sum" else KEY

    def _aggregate(self, name: str, node: QueryNode, source_shape: ViewShape) -> str:
        """Returns how its values of two blocks are put together."""
        arguments = [part for child in node.section("ARGUMENTS") for part in child.children]
        roles = [self._role(argument, source_shape) for argument in arguments]
        state = _STATE.fullmatch(name)
        keys = all(role == KEY for role in roles)
        if keys and state and (source_shape.one_by_one or state[1] in _TWICE):
            return merged(state)
        if keys and (name in _KEPT or (source_shape.one_by_one and name in _ADDED)):
            return _KEPT.get(name) or _ADDED[name]
        if not keys and len(roles) == 1 and again(name, roles[0]):
            return roles[0]
        raise Uncertainty(f"{name}() {_BLOCKS}")


# Which types of numbers take sums of other types, so that a sum of casts is the cast of the sum. Pure.
_TAKEN = {"Int": ("Int",), "Decimal": ("Int", "Decimal"), "Float": ("Int", "Decimal", "Float")}


def keeps(stored: str, given: str) -> bool:
    """Returns whether a cast of `given` to `stored` cuts off no part of each number; of unknown types it may
    not."""
    if not (stored and given):
        return True
    stored_type, given_type = _plain(stored), _plain(given)
    if stored_type.name == given_type.name == "Decimal":
        return int(stored_type.arguments[-1]) >= int(given_type.arguments[-1])
    return stored_type == given_type or _family(given_type) in _TAKEN.get(_family(stored_type), ())


def _plain(text: str) -> Type:
    """`SimpleAggregateFunction(sum, Nullable(Float64))`: Float64."""
    kind = parse(text)
    return (kind.argument(1) if kind.name == "SimpleAggregateFunction" else kind).plain


def _family(kind: Type) -> str:
    """`UInt64`: Int."""
    return re.sub(r"^U?Int\d+$", "Int", re.sub(r"^Float\d+$", "Float", kind.name))


# Questions about a node of a SELECT's query tree. Pure.
FUNCTION = re.compile(r"FUNCTION id: .*function_name: (?P<name>.*), function_type: (?P<type>\w+)")
TABLE = re.compile(r"TABLE id: \d+,.* table_name: (?P<name>.*)")


def functions(root: QueryNode) -> frozenset[str]:
    """Returns the ordinary functions that a SELECT calls."""
    matches = (FUNCTION.match(node.text) for node in root.walk())
    return frozenset(match["name"] for match in matches if match and match["type"] == "ordinary")


def merged(state: re.Match[str]) -> str:
    """`sumIfState`: sumIfMerge; `sumSimpleState`: sum."""
    return state[1] if state[3] == "SimpleState" else f"{state[1]}{state[2] or ''}Merge"


def again(name: str, role: str) -> bool:
    """Returns whether a function puts values of `role` together once more: `sum` of sums."""
    if role.endswith("Merge"):
        return name == f"{role}State"
    return name in (role, f"{role}SimpleState")


def aggregates(node: QueryNode) -> bool:
    """Returns whether the expression aggregates rows of its own SELECT."""
    if node.kind in ("QUERY", "UNION"):
        return False
    found = FUNCTION.match(node.text)
    return bool(found and found["type"] == "aggregate") or any(map(aggregates, node.children))


def always(having: QueryNode) -> bool:
    """Returns whether it is `count() > 0`: a group has rows."""
    nodes = [node for node in having.walk() if node.kind not in ("", "LIST")]
    called = [match["name"] for node in nodes if (match := FUNCTION.match(node.text))]
    plain = len(nodes) == 3 and nodes[2].kind == "CONSTANT" and "constant_value: UInt64_0," in nodes[2].text
    return plain and called == ["greater", "count"]


def tables(node: QueryNode, own: Collection[str]) -> list[str]:
    """Returns the tables below a node that are none of `own`, each once."""
    matches = (TABLE.fullmatch(inner.text) for inner in node.walk())
    return list(dict.fromkeys(match["name"] for match in matches if match and match["name"] not in own))


def text_of(node: QueryNode) -> str:
    """Returns the lines of a node and of all below it."""
    return "\n".join(inner.text for inner in node.walk())
