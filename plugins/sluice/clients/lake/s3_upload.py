"""A file becomes an S3 object once: in one request, or in parts that a last conditional request joins."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from sluice.clients.lake.s3_client import S3Object, code, status

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

# What S3 takes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
_MOST_PARTS = 10_000
PART_BYTES = 8 << 20
_SIDE_BY_SIDE = 4
_CHECKSUM: Final = "CRC32"  # boto3's own default, which an upload in parts has to name
_WRITER = "sluice-writer"
_ANY = "*"
# "Taken", or a repeated request whose first answer was lost: the upload is over, or its object is there.
_REFUSED = (409, 412)
_OVER = "NoSuchUpload"


@dataclass(frozen=True)
class Upload:
    """One file on its way to one key; `writer` identifies its object."""

    client: S3Client
    bucket: str
    key: str
    path: Path
    writer: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self) -> bool:
        """Uploads. Returns False when another writer's object is at the key. Raises what boto3 raises, and
        OSError.

        No reader sees a part of the object; parts of an upload that failed are removed, unless the store is
        out of reach: then the bucket's lifecycle rule removes them.
        """
        if self.path.stat().st_size <= PART_BYTES:
            return self._created(self._put)
        metadata = {_WRITER: self.writer}
        upload = self.client.create_multipart_upload(
            **self._at, Metadata=metadata, ChecksumAlgorithm=_CHECKSUM
        )
        upload_id = upload["UploadId"]
        joined = False
        try:
            parts = self._send(upload_id)
            joined = self._created(lambda: self._join(upload_id, parts))
            return joined
        finally:
            if not joined:
                with suppress(ClientError, BotoCoreError):
                    self.client.abort_multipart_upload(**self._at, UploadId=upload_id)

    @property
    def _at(self) -> S3Object:
        return {"Bucket": self.bucket, "Key": self.key}

    def _put(self) -> None:
        metadata = {_WRITER: self.writer}
        body = self.path.read_bytes()
        self.client.put_object(**self._at, Body=body, Metadata=metadata, IfNoneMatch=_ANY)

    def _send(self, upload_id: str) -> list[CompletedPartTypeDef]:
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            futures = [pool.submit(self._part, upload_id, *piece) for piece in enumerate(self._pieces(), 1)]
            try:
                return [future.result() for future in futures]
            finally:
                pool.shutdown(cancel_futures=True)

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yields where each part begins, and its length, in bytes."""
        size = self.path.stat().st_size
        length = max(PART_BYTES, -(-size // _MOST_PARTS))
        return ((start, min(length, size - start)) for start in range(0, size, length))

    def _part(self, upload_id: str, number: int, piece: tuple[int, int]) -> CompletedPartTypeDef:
        with self.path.open("rb") as file:
            file.seek(piece[0])
            body = file.read(piece[1])
        answer = self.client.upload_part(
            **self._at, UploadId=upload_id, PartNumber=number, Body=body, ChecksumAlgorithm=_CHECKSUM
        )
        part: CompletedPartTypeDef = {"PartNumber": number, "ETag": answer["ETag"]}
        if "ChecksumCRC32" in answer:
            part["ChecksumCRC32"] = answer["ChecksumCRC32"]
        return part

    def _join(self, upload_id: str, parts: list[CompletedPartTypeDef]) -> None:
        self.client.complete_multipart_upload(
            **self._at, UploadId=upload_id, MultipartUpload={"Parts": parts}, IfNoneMatch=_ANY
        )

    def _created(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except ClientError as error:
            if status(error) not in _REFUSED and code(error) != _OVER:
                raise
            writer = self._writer_there()
            if writer is None:
                raise
            return writer == self.writer
        return True

    def _writer_there(self) -> str | None:
        """Returns who wrote the object at the key: empty for what is not of this class; None when there is
        none."""
        try:
            return self.client.head_object(**self._at).get("Metadata", {}).get(_WRITER, "")
        except ClientError as error:
            if status(error) != 404:
                raise
            return None
