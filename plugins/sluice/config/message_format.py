"""The pipeline file's `event.format` and `event.registry`: how a message's bytes say an event. The reference
is made of the models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

JSON: Final = "json"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
_FORMS = "expected json, avro, protobuf, {avro: FILE} or {protobuf: {file: FILE, message: NAME}}"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Registry(_Strict):
    """A schema registry (Confluent's REST API); its address and login are an Airflow connection."""

    connection: str
    """Airflow connection of type `http`. Example: `schema_registry`"""


class MessageFormat(_Strict):
    """JSON, Avro or Protobuf. `schema_file` is an Avro schema (.avsc), or a .proto file of which `message`
    is meant. In the pipeline file its path counts from the pipeline file's folder.
    """

    kind: Literal["json", "avro", "protobuf"] = JSON
    schema_file: Path | None = None
    message: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any, info: ValidationInfo) -> Any:
        """`avro`, `{avro: FILE}` and `{protobuf: {file: FILE, message: NAME}}` are the file's forms."""
        if isinstance(value, str):
            value = {value: None}
        if not isinstance(value, Mapping) or len(value) != 1:
            raise ValueError(_FORMS)
        [(kind, schema)] = value.items()
        if kind == AVRO and isinstance(schema, str):
            schema = {"file": schema}
        forms: dict[object, set[str]] = {JSON: set(), AVRO: {"file"}, PROTOBUF: {"file", "message"}}
        if kind not in forms or (schema is not None and not _holds(schema, forms[kind])):
            raise ValueError(_FORMS)
        folder = Path((info.context or {}).get("folder", "."))
        given = dict(schema or {})
        file = folder / given["file"] if given else None
        if file is not None and not file.is_file():
            raise ValueError(f"there is no schema file {file}")
        return {"kind": kind, "schema_file": file, "message": given.get("message")}

    @property
    def decoded(self) -> bool:
        """Whether the lake's `_payload` is made here, and the message's own bytes are kept beside it."""
        return self.kind != JSON


def _holds(schema: object, names: set[str]) -> bool:
    if not isinstance(schema, Mapping):
        return False
    texts = all(isinstance(text, str) and text for text in schema.values())
    return texts and bool(names) and set(schema) == names
