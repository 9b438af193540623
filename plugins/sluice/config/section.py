"""What every part of a pipeline file is: unknown keys are refused, and nothing changes it."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator


class WrongKey(ValueError):
    """Says that what stands at `place` (keys and positions, below the mapping that is validated) is wrong."""

    def __init__(self, place: tuple[int | str, ...], expected: str) -> None:
        super().__init__(f"{'.'.join(map(str, place))}: {expected}")
        self.place, self.expected = place, expected


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, value: object, info: ValidationInfo) -> object:
        """Refuses true where a number is expected: pydantic takes it for 1."""
        field = cls.model_fields[str(info.field_name)]
        parsed = any(
            isinstance(annotation, BeforeValidator) for annotation in field.metadata
        )  # it says what it expects
        if isinstance(value, bool) and not parsed and _takes_number(field.annotation):
            raise ValueError(f"expected a number, not {str(value).lower()}")
        return value


def _takes_number(hint: Any) -> bool:
    return hint in (int, float) or any(map(_takes_number, get_args(hint)))
