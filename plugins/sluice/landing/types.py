"""Types as small numbers, and the verdict on those that cannot name a folder."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.lake.layout import hive_escape
from sluice.landing import reasons

FOLDER_BYTES = 200  # of an escaped type; file systems allow 255 for `type=` and it


class TypeCodes:
    """One per task: `names[code]` is the type of a code, the same over all its batches."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def encode(self, names: pa.StringArray | pa.BinaryArray) -> tuple[np.ndarray, dict[int, str]]:
        """(int32 codes, reason by position). Bytes, which headers are, have to be UTF-8."""
        found = names.dictionary_encode()
        verdicts = [self._code(name) for name in found.dictionary.to_pylist()]
        if not found.indices.null_count and all(isinstance(verdict, int) for verdict in verdicts):
            return np.array(verdicts, np.int32)[found.indices.to_numpy()], {}
        each = [reasons.NO_TYPE if i is None else verdicts[i] for i in found.indices.to_pylist()]
        codes = np.array([verdict if isinstance(verdict, int) else -1 for verdict in each], np.int32)
        return codes, {i: verdict for i, verdict in enumerate(each) if isinstance(verdict, str)}

    def _code(self, name: str | bytes) -> int | str:
        try:
            text = name if isinstance(name, str) else name.decode()
        except UnicodeDecodeError:
            return reasons.TYPE_NOT_STRING
        known = self._codes.get(text)
        if known is not None:
            return known
        verdict = _verdict(text)
        if verdict is not None:  # not kept: it may be of any length, and another one in each record
            return verdict
        self._codes[text] = len(self.names)
        self.names.append(text)
        return self._codes[text]


def _verdict(name: str) -> str | None:
    """Why `name` cannot be a folder's name, or None."""
    if not name:
        return reasons.NO_TYPE
    return reasons.TYPE_TOO_LONG if len(hive_escape(name).encode()) > FOLDER_BYTES else None
