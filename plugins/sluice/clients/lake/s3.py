"""The lake in S3, or in a store that speaks its protocol with conditional writes."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from sluice.clients.lake import durable
from sluice.clients.lake.base import MOST_READ, TOO_LONG, Begun, Item, StoredObject, check_key
from sluice.clients.lake.s3_client import S3Object, client, code, explained, refusal, status
from sluice.clients.lake.settings import S3Settings
from sluice.clients.lake.temporary import new_file
from sluice.concurrency import each
from sluice.config.pipeline import command_line
from sluice.errors import LakeRefused, LakeUnavailable
from sluice.slices import utc

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, ObjectIdentifierTypeDef


_ABSENT = ("NoSuchKey", "404")
_BEHIND_THE_END = 416
_NO_STORE = "another server or a proxy answers: correct the address of the store"
_DELETES_PER_REQUEST = 1000
_CREATED_TOGETHER = 128
_TRIES = 5
_TRANSFER = TransferConfig(max_concurrency=4)


class _Condition(TypedDict, total=False):
    IfNoneMatch: str
    IfMatch: str


class _From(TypedDict, total=False):
    StartAfter: str


@dataclass(frozen=True)
class S3Lake:
    """Keys live below `prefix`, which ends with `/`. A version is the object's ETag. `config`: as
    `command_line`."""

    bucket: str
    prefix: str
    settings: S3Settings
    config: Path | None = field(default=None, compare=False, repr=False)

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix.rstrip('/')}"

    @property
    def pipeline(self) -> str:
        return self.prefix.rstrip("/").rpartition("/")[2]

    def command(self, command: str, *words: str) -> str:
        return command_line(self.pipeline, self.config, command, *words)

    def read(self, key: str) -> StoredObject | None:
        with explained(self.url):
            try:
                response = self._client.get_object(**self._at(key))
            except ClientError as error:
                if code(error) in _ABSENT:
                    return None
                raise
            if not {"ContentLength", "ETag"} <= response.keys():
                raise LakeRefused(self.url, "an answer has no length or no ETag", _NO_STORE)
            if response["ContentLength"] > MOST_READ:
                reason = f"it has more than {MOST_READ >> 20} MiB"
                raise LakeRefused(f"{self.url}/{key}", reason, TOO_LONG)
            data = response["Body"].read(MOST_READ)
            if len(data) != response["ContentLength"]:  # botocore compares only at the end
                raise LakeUnavailable(self.url, f"the answer of {key} broke off")
            return StoredObject(data, response["ETag"])

    def create(self, key: str, data: bytes) -> bool:
        return self._write_if(key, data, lambda stored: stored is None, IfNoneMatch="*")

    def replace(self, key: str, data: bytes, version: str) -> bool:
        return self._write_if(
            key, data, lambda stored: stored is not None and stored.version == version, IfMatch=version
        )

    def create_each(self, objects: Iterable[tuple[str, bytes]]) -> Iterator[bool]:
        left = iter(objects)
        while part := list(islice(left, _CREATED_TOGETHER)):
            yield from each(lambda key_and_data: self.create(*key_and_data), part)

    def synced_at_end(self) -> AbstractContextManager[S3Lake]:
        return nullcontext(self)  # what the store has taken is safe

    def put(self, key: str, data: bytes) -> None:
        with explained(self.url):
            self._client.put_object(**self._at(key), Body=data)

    def delete(self, keys: Iterable[str]) -> None:
        remaining = iter(keys)
        while page := list(islice(remaining, _DELETES_PER_REQUEST)):
            objects: list[ObjectIdentifierTypeDef] = [{"Key": self._name(key)} for key in page]
            with explained(self.url):
                answer = self._client.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True}
                )
            for error in answer.get("Errors", []):
                if error.get("Code") not in _ABSENT:
                    raise refusal(f"{self.url} ({error.get('Key')})", str(error.get("Code")), 0)

    def list(self, prefix: str) -> Iterator[Item]:
        return self._list(prefix)

    def present(self, keys: Iterable[str]) -> Iterator[Item]:
        asked_keys = set(keys)
        if not asked_keys:
            return
        first, last = min(asked_keys), max(asked_keys)
        # By character, as a store takes it; StartAfter names a key that is itself left out.
        prefix = os.path.commonprefix([first, last])  # noqa: RUF071
        for item in self._list(prefix, StartAfter=self.prefix + first[:-1]):
            if item.key > last:
                return
            if item.key in asked_keys:
                yield item

    def _list(self, prefix: str, **more: Unpack[_From]) -> Iterator[Item]:
        pages = self._client.get_paginator("list_objects_v2")
        with explained(self.url):
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix, **more):
                for entry in page.get("Contents", []):
                    # A key that ends in / is a folder's marker, which consoles and file gateways make.
                    if not entry["Key"].endswith("/"):
                        key = entry["Key"].removeprefix(self.prefix)
                        yield Item(key, entry["Size"], utc(entry["LastModified"]))

    def size(self, key: str) -> int | None:
        with explained(self.url):
            try:
                return int(self._client.head_object(**self._at(key))["ContentLength"])
            except ClientError as error:
                if code(error) in _ABSENT:
                    return None
                raise

    def begin(self, key: str) -> Begun:
        with durable.explained(f"file://{tempfile.gettempdir()}"):
            return Begun(new_file())

    def finish(self, key: str, begun: Begun) -> None:
        with explained(self.url), durable.explained(f"file://{begun.path}"):
            if not Upload(self._client, self.bucket, self._name(key), begun.path).run():
                location, remedy = (
                    f"{self.url}/{key}",
                    "nothing else may write below this prefix: find who does",
                )
                raise LakeRefused(location, "another writer's object is there", remedy)
        begun.discard()

    def move(self, source: str, destination: str) -> None:
        with explained(self.url):
            try:
                self._client.copy(
                    {"Bucket": self.bucket, "Key": self._name(source)},
                    self.bucket,
                    self._name(destination),
                    Config=_TRANSFER,
                )
            except ClientError as error:
                if code(error) not in _ABSENT:
                    raise
                if self.size(destination) is None:
                    raise FileNotFoundError(f"{self.url}/{source}") from error
                return
        self.delete([source])

    @contextmanager
    def local(self, key: str) -> Iterator[Path]:
        begun = self.begin(key)
        try:
            self._download(key, begun.path)
            yield begun.path
        finally:
            begun.discard()

    def part(self, key: str, start: int, until: int) -> bytes:
        if start >= until:
            return b""
        with explained(self.url):
            try:
                response = self._client.get_object(**self._at(key), Range=f"bytes={start}-{until - 1}")
            except ClientError as error:
                if code(error) in _ABSENT:
                    raise FileNotFoundError(f"{self.url}/{key}") from error
                if status(error) == _BEHIND_THE_END:
                    return b""
                raise
            return response["Body"].read()

    @property
    def _client(self) -> S3Client:
        with explained(self.url):
            return client(self.settings)

    def _at(self, key: str) -> S3Object:
        return {"Bucket": self.bucket, "Key": self._name(key)}

    def _name(self, key: str) -> str:
        check_key(self.url, key)
        return self.prefix + key

    def _download(self, key: str, path: Path) -> None:
        with explained(self.url), durable.explained(f"file://{path}"), path.open("wb") as file:
            try:
                self._client.download_fileobj(self.bucket, self._name(key), file, Config=_TRANSFER)
            except ClientError as error:
                if code(error) in _ABSENT:
                    raise FileNotFoundError(f"{self.url}/{key}") from error
                raise

    def _write_if(
        self,
        key: str,
        data: bytes,
        still: Callable[[StoredObject | None], bool],
        **condition: Unpack[_Condition],
    ) -> bool:
        """A refusal proves nothing: it may follow a lost answer, or a conflict that has passed.

        Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
        """
        for _ in range(_TRIES):
            with explained(self.url):
                try:
                    self._client.put_object(**self._at(key), Body=data, **condition)
                    return True
                except ClientError as error:
                    if status(error) not in (409, 412) and code(error) not in _ABSENT:
                        raise
            stored = self.read(key)
            if stored is not None and stored.data == data:
                return True
            if not still(stored):
                return False
        raise LakeUnavailable(self.url, f"conditional writes of {key} are refused without a reason")


# A file becomes an S3 object once: in one request, or in parts that a last conditional request joins.
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
