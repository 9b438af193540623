"""Landing on Spark: exact reads of Kafka, and the tasks' work in Python on Arrow batches."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import reduce
from types import TracebackType
from typing import Any, TypeVar

import odd_stamps
import pyarrow as pa
import workers
from kafka_source import not_handed_over, records
from progress import Progress
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # Spark's bridge has no types
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from stages import read_stages

from sluice import errors
from sluice.clients.kafka.records import BoundedReader
from sluice.clients.kafka.settings import KafkaSettings, settings_of
from sluice.errors import SluiceError, SparkFailed
from sluice.flow.land.merge import Merge, Total
from sluice.flow.land.read_plan import ReadGroup
from sluice.flow.land.task import read_lake as lake_read
from sluice.flow.land.task.read_kafka import batches, divided, whole
from sluice.flow.land.task.reports import TaskReport, WrittenFile, decode, encode
from sluice.flow.land.task.task import CUT_BYTES, Task
from sluice.metrics.meter import count_stages
from sluice.runtime import collect_seldom

# Workers have the library, but not this folder.
for _module in (sys.modules[__name__], odd_stamps, workers):
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]  # a copy without types

_RUNS_PER_JOB = 100  # each costs Spark a client and some planning in the driver
_CUT_RECORDS = (256 << 20) // CUT_BYTES
_NO_BOUND = (1 << 31) - 1
_ELSEWHERE: Any = None  # what a work travels without
# What a work has of its own. It alone goes through a file of Spark's: nothing of it may know a secret.
_OWN = ("cluster", "attempt", "slices", "edges", "whole", "files", "erasures", "masked", "stamp")
# Above it Spark puts a function into a file, with all that it knows.
_FUNCTION_IN_FILE = "spark.broadcast.UDFCompressionThreshold"
_Work = TypeVar("_Work", bound=Task | Merge | Total)
_Done = TypeVar("_Done", bytes, WrittenFile)
_OWN_ERROR = re.compile(r"^sluice\.errors\.(\w+): (.+)$", re.MULTILINE)


class TaskFailed(SluiceError):
    """A SluiceError that a task met; its class does not travel back from Spark's workers, its text does."""

    def __init__(self, message: str, kind: type[SluiceError]) -> None:
        super().__init__(message)
        self.exit_code = kind.exit_code
        self.retryable = kind.retryable


class SparkEngine:
    """Starts Spark when there is something to read, and stops it at the end of the `with`."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name = name
        self._say = say
        self._spark: SparkSession | None = None
        self._lands = 0
        self.starting = 0.0  # seconds that Spark took to start

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if self._spark is not None:
            self._count_stages(self._spark)
            self._spark.stop()

    def _count_stages(self, spark: SparkSession) -> None:
        try:
            count_stages(read_stages(spark.sparkContext))
        except Py4JError as error:  # a Spark that has died, whose error is raised already
            self._say(f"Spark says nothing of its stages: {_reason(str(error))}")

    def land(self, reads: Sequence[tuple[ReadGroup, Task]]) -> TaskReport:
        self._lands += 1
        again = [(run, task) for run, task in reads if task.files is not None]
        new = [(run, task) for run, task in reads if task.files is None]
        by_tasks = [(run, task) for run, task in new if run.together or not _read_by_spark(run, task)]
        by_spark = [(run, task) for run, task in new if not run.together and _read_by_spark(run, task)]
        lake = self._read_from_lake(again)
        return TaskReport.of([*lake, *self._read_by_tasks(by_tasks), *self._read_by_spark(by_spark)])

    def _read_from_lake(self, reads: Sequence[tuple[ReadGroup, Task]]) -> list[TaskReport]:
        """Reads in this process where the records are one task's: that is faster than starting Spark."""
        rows = sum(run.offsets for run, _ in reads)
        tasks = [task for run, undivided in reads for task in lake_read.shares(undivided, run.together)]

        def land(task: Task, name: str) -> bytes:
            return encode(task.land(lake_read.batches(task), name))

        if rows <= lake_read.TOGETHER:
            name = f"here-{self._lands}"
            return [task.land(lake_read.batches(task), f"{name}-{n}") for n, task in enumerate(tasks)]
        return [decode(report) for report in self._each(land, tasks, len(tasks), "read", rows)]

    def _read_by_tasks(self, reads: Sequence[tuple[ReadGroup, Task]]) -> list[TaskReport]:
        if not reads:
            return []
        first, rows = reads[0][1].pipeline, sum(run.offsets for run, _ in reads)
        settings = {run.cluster: settings_of(first.cluster(run.cluster)) for run, _ in reads}

        def land(task: Task, name: str) -> bytes:
            with BoundedReader(settings[task.cluster], task.pipeline.max_record) as reader:
                return encode(task.land(batches(reader, task), name, reader.left))

        shares = ([task] if run.together else divided(task, first.rows_per_task) for run, task in reads)
        tasks = [task for share in shares for task in share]
        return [decode(report) for report in self._each(land, tasks, len(tasks), "read", rows)]

    def _read_by_spark(self, reads: Sequence[tuple[ReadGroup, Task]]) -> list[TaskReport]:
        reports: list[TaskReport] = []
        for start in range(0, len(reads), _RUNS_PER_JOB):
            part = reads[start : start + _RUNS_PER_JOB]
            try:
                reports += self._read_by_source(part)
            except SparkFailed as error:
                why = not_handed_over(error.__cause__ or error)
                if why is None:
                    raise
                self._say(f"{why}: tasks read them themselves")
                reports += self._read_by_tasks(part)
        return reports

    def _read_by_source(self, reads: Sequence[tuple[ReadGroup, Task]]) -> list[TaskReport]:
        with _explained():
            self._bound_batches()
            frame = reduce(DataFrame.unionAll, [self._frame(*read) for read in reads])
            rows = sum(run.offsets for run, _ in reads)
            with Progress(frame.sparkSession.sparkContext, "read", self._say, rows):
                return [decode(bytes(row.report)) for row in frame.collect()]

    def merge(self, merges: Sequence[Merge | Total]) -> list[WrittenFile]:
        tasks = min(len(merges), 4 * self.session().sparkContext.defaultParallelism)
        return self._each(lambda merge, name: merge.run(f"merged-{name}"), merges, tasks, "merge")

    def _each(
        self, do: Callable[[_Work, str], _Done], works: Sequence[_Work], tasks: int, what: str, rows: int = 0
    ) -> list[_Done]:
        """Returns what `do` gives for each of the works and a name for its files, in their order; `rows`,
        where it is known, is how many they read in all.

        What is parallelized goes through a file of Spark's. All that the works have in common, such as
        pipeline, lake, mask and registry, goes with the function, in memory: it may hold passwords and keys.
        """
        context = self.session().sparkContext
        names = [field.name for field in fields(works[0]) if field.name not in _OWN]
        common = {name: getattr(works[0], name) for name in names}
        for work in works:
            if any(getattr(work, name) is not value for name, value in common.items()):
                raise SparkFailed("the works of one read differ in more than their records")
        bare = [replace(work, **dict.fromkeys(names, _ELSEWHERE)) for work in works]

        def all_of(parts: Iterable[_Work]) -> Iterator[_Done]:
            workers.without_pandas()
            collect_seldom()
            for number, part in enumerate(parts):
                yield do(replace(part, **common), f"{_task_name()}-{number}")

        with _explained(), Progress(context, what, self._say, rows):
            return context.parallelize(bare, tasks).mapPartitions(all_of).collect()

    def _frame(self, run: ReadGroup, task: Task) -> DataFrame:
        rows = records(self.session(), task.pipeline, run).selectExpr(*task.columns())
        settings = settings_of(task.pipeline.cluster(run.cluster))
        return rows.mapInArrow(_landing(task, settings), "report binary")

    def _bound_batches(self) -> None:
        """Bounds batches by their number of records: texts are cut, so no record has to be measured."""
        self.session().conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _CUT_RECORDS)
        self.session().conf.set("spark.sql.execution.arrow.maxBytesPerBatch", _NO_BOUND)

    def session(self) -> SparkSession:
        """Starts Spark at the first call."""
        if self._spark is None:
            began = time.monotonic()
            builder = SparkSession.builder.appName(self._name).config(_FUNCTION_IN_FILE, _NO_BOUND)
            self._spark = builder.getOrCreate()
            self.starting = round(time.monotonic() - began, 3)
            # Else Spark runs all frames of one partition each, one after another, in one task.
            self._spark.conf.set("spark.sql.unionOutputPartitioning", "false")
        return self._spark


def _read_by_spark(run: ReadGroup, task: Task) -> bool:
    return settings_of(task.pipeline.cluster(run.cluster)).read_by_spark


def _landing(
    task: Task, settings: KafkaSettings
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def land(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        workers.without_pandas()
        collect_seldom()
        with BoundedReader(settings, task.pipeline.max_record) as reader:
            uncut = whole(task, odd_stamps.checked(batches), reader)
            report = task.land(uncut, _task_name(), reader.left)
        yield pa.RecordBatch.from_pydict({"report": [encode(report)]})

    return land


def _task_name() -> str:
    """Returns a name that is unique in the application: each try of a task writes files of its own."""
    context = TaskContext.get()
    if context is None:
        raise SparkFailed("this is no task of Spark's")
    return f"{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}"


@contextmanager
def _explained() -> Iterator[None]:
    """Raises TaskFailed for a SluiceError in a task, SparkFailed for everything else that stops Spark."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        sluice_errors = _OWN_ERROR.findall(str(error))
        if sluice_errors:
            name, message = sluice_errors[-1]
            raise TaskFailed(message, getattr(errors, name, SluiceError)) from error
        raise SparkFailed(_reason(str(error))) from error


def _reason(text: str) -> str:
    """Returns the last cause of a Java stack trace, the last line of a Python one, or the first line."""
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    raised = re.findall(r"^([\w.]+(?:Error|Exception)\b.*)$", text, re.MULTILINE)
    return (causes or raised or text.strip().splitlines()[:1] or ["no reason given"])[-1][:500]
