"""Says what is wrong in a pipeline file: at which key, and what was expected there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from sluice.config.keys import inner_model, keys
from sluice.config.section import WrongKey

KeyPlace = tuple[int | str, ...]
"""Keys, and positions in lists, from the file's top to a value."""

# By the kind of pydantic's error (https://docs.pydantic.dev/latest/errors/validation_errors/).
_EXPECTED = {
    "missing": "is missing",
    "string_type": "expected a text",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping",
    "mapping_type": "expected a mapping",
    "model_type": "expected a mapping",
    "model_attributes_type": "expected a mapping",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "literal_error": "expected {expected}",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected at least {ge}",
    "less_than": "expected less than {lt}",
    "less_than_equal": "expected at most {le}",
    "too_short": "expected at least {min_length}",
    "too_long": "expected at most {max_length}",
    "string_too_short": "expected at least {min_length} characters",
    "string_too_long": "expected at most {max_length} characters",
}
_UNKNOWN = "extra_forbidden"


@dataclass(frozen=True)
class Mistake:
    place: KeyPlace
    expected: str

    @property
    def key(self) -> str:
        """`kafka[0].topic`; nothing for the file as a whole."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)
        return "".join(parts).lstrip(".")


def first_mistake(model: type[BaseModel], error: ValidationError) -> Mistake:
    """Returns the first mistake. An unknown key comes first: what is missing is often that, misspelled."""
    errors = error.errors()
    chosen = next((candidate for candidate in errors if candidate["type"] == _UNKNOWN), errors[0])
    raised = chosen.get("ctx", {}).get("error")
    if isinstance(raised, WrongKey):
        return Mistake((*chosen["loc"], *raised.place), raised.expected)
    return Mistake(chosen["loc"], _expected(model, chosen))


def _expected(model: type[BaseModel], error: Mapping[str, Any]) -> str:
    if error["type"] == _UNKNOWN:
        return _unknown(str(error["loc"][-1]), sorted(_known(model, error["loc"][:-1])))
    template = _EXPECTED.get(error["type"])
    return (
        template.format_map(error.get("ctx", {})) if template else error["msg"].removeprefix("Value error, ")
    )


def _unknown(key: str, names: list[str]) -> str:
    near = get_close_matches(key, names, 1)
    return (
        f"no such key: did you mean `{near[0]}`?" if near else f"no such key; there are: {', '.join(names)}"
    )


def _known(model: type[BaseModel], place: KeyPlace) -> Iterator[str]:
    """Yields the keys of the mapping at `place`."""
    for part in place:
        hints = {key.name: key.hint for key in keys(model)}
        inner, _ = inner_model(hints.get(str(part)))
        model = inner or model  # else `part` is a position, or a name that a person has chosen
    return (key.name for key in keys(model))
