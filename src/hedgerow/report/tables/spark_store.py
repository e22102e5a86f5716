"""
Spark store: the rows of a log on the workers of Apache Spark, and queries about them in SQL.

Workers must see the logs under the same paths, and have this version of Hedgerow with its `report` extra. They read the
log (`spark_ingest`) and count what each source did (`figures`): all rows of a source come to one worker. One row of
figures for each source returns to this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession

from hedgerow.errors import StoreError
from hedgerow.logs.dialect import Dialect
from hedgerow.logs.reader import ReadCounts
from hedgerow.report.shape.autocorrelation import Levels
from hedgerow.report.shape.features import NAMES, Features, features
from hedgerow.report.shape.series import Counts, SeriesPlan
from hedgerow.report.tables import window_features as windowing
from hedgerow.report.tables.figures import FIGURES, Figures, SiteFacts, count
from hedgerow.report.tables.ingest import Progress
from hedgerow.report.tables.path_features import WIDTH
from hedgerow.report.tables.queries import SERIES, SqlQueries
from hedgerow.report.tables.row_builder import RowBuilder
from hedgerow.report.tables.rows import COLUMNS, ROW, Rows
from hedgerow.report.tables.spark_ingest import (
    NUMBERED,
    READ,
    Meaning,
    join,
    parts_of,
    read_parts,
    renumber,
    signed,
    unsigned,
)

_SILENCE = Path(__file__).with_name("spark-log4j2.properties").as_uri()
_FIGURES = (
    "source BIGINT, first BIGINT, last BIGINT, figures ARRAY<BIGINT>, steps ARRAY<BIGINT>, paths ARRAY<DOUBLE>, "
    "who ARRAY<BIGINT>, windows ARRAY<DOUBLE>"
)
_SHAPES = "source BIGINT, start BIGINT, requests DOUBLE, features ARRAY<DOUBLE>"
_STANDALONE = "spark://"
_CONNECTING = 10.0
_ROWS_AT_ONCE = 200_000
_LEAST_MEMORY = 1_000_000_000
_BEYOND_SIGN = 1 << 63
_LONGEST_REASON = 300
_RAISED = re.compile(r"[A-Za-z_.]+(Error|Exception): ")


class SparkStore(SqlQueries):
    """
    Rows on the Spark cluster at *master*, such as `spark://host:7077` or `local[2]`. To be closed.

    *memory* is the limit of Spark on this machine. The workers have their own settings.
    """

    def __init__(self, master: str, *, memory: int) -> None:
        self._master = master
        self._look_for_them()
        # Unless somebody says which, workers take the Python that this is.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_SILENCE}",
            "spark.executorEnv.OPENBLAS_NUM_THREADS": os.environ.get("OPENBLAS_NUM_THREADS", "1"),
            "spark.driver.memory": f"{max(memory, _LEAST_MEMORY) // 1_000_000}m",
            "spark.driver.maxResultSize": "0",
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(_ROWS_AT_ONCE),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        }
        # It speaks of pandas, which nothing here goes through.
        warnings.filterwarnings("ignore", category=FutureWarning, message="PySpark does not yet fully support pandas")
        builder = SparkSession.builder.master(master).appName("hedgerow report")
        for name, value in settings.items():
            builder = builder.config(name, value)
        with self._told():
            self._spark = builder.getOrCreate()
            at_once = max(2, self._spark.sparkContext.defaultParallelism)
            self._spark.conf.set("spark.sql.shuffle.partitions", str(2 * at_once))
        self._sources: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._series: DataFrame | None = None

    def _look_for_them(self) -> None:
        """Look for Java and the master first: Spark needs a minute, and many lines, to say that one is missing."""
        if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
            raise StoreError("Spark needs Java; install Java 17 or newer, or name its place by JAVA_HOME")
        if not self._master.startswith(_STANDALONE):
            return
        reasons = []
        for one in self._master.removeprefix(_STANDALONE).split(","):
            host, _, port = one.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), _CONNECTING).close()
            except (OSError, ValueError) as error:
                reasons.append(getattr(error, "strerror", None) or str(error))
            else:
                return
        raise StoreError(f"Spark at {self._master}: no master answers there: {reasons[0]}; start it, or name another")

    def close(self) -> None:
        # Where it has gone already there is nothing left to end.
        with suppress(Py4JError, OSError):
            self._spark.stop()

    def read(
        self, paths: Sequence[str], builder: RowBuilder, progress: Progress | None, dialect: Dialect
    ) -> ReadCounts:
        """Read all of *paths* on the workers. LogError if one of them cannot be read at all."""
        read_counts = ReadCounts()
        parts = [msgspec.to_builtins(part) for part in parts_of(paths, dialect, read_counts)]
        schema = "index BIGINT, named STRING, path STRING, start BIGINT, end BIGINT"
        with self._told():
            spread = self._spark.sparkContext.parallelize(parts, max(1, len(parts)))
            sent = self._spark.createDataFrame(spread, schema).mapInArrow(
                partial(read_parts, dialect, builder.key.secret), READ
            )
            sent.persist(StorageLevel.MEMORY_AND_DISK)
            found = sent.where("meaning IS NOT NULL").select("meaning").toArrow()
            meanings = [msgspec.msgpack.decode(one, type=Meaning) for one in found.column(0).to_pylist()]
            numbers = join(meanings, builder, read_counts)
            rows = sent.where("meaning IS NULL").drop("meaning").mapInArrow(partial(renumber, numbers), NUMBERED)
            rows.persist(StorageLevel.MEMORY_AND_DISK)
            rows.createOrReplaceTempView("rows")
            # Only now are they there, and what they were made of need not be kept.
            rows.count()
            sent.unpersist()
        if progress is not None:
            progress(read_counts)
        return read_counts

    def ask(self, query: str, parameters: list[Any] | None = None) -> dict[str, NDArray[Any]]:
        values = [value - 2 * _BEYOND_SIGN if value >= _BEYOND_SIGN else value for value in parameters or []]
        with self._told():
            return _columns(self._spark.sql(query.replace("//", "div"), values).toArrow())

    def ask_about(
        self, sources: NDArray[np.uint64], query: str, parameters: list[Any] | None = None
    ) -> dict[str, NDArray[Any]]:
        with self._told():
            chosen = self._spark.createDataFrame(pa.table({"source": signed("source", sources)}))
            chosen.createOrReplaceTempView("chosen")
        return self.ask(query, parameters)

    def count(self, facts: SiteFacts) -> Figures:
        """Count the figures of every source on the workers."""
        with self._told():
            rows = self._spark.table("rows").repartition("source").sortWithinPartitions("source", "t", "number")
            found = _figures(rows.mapInArrow(partial(_count, facts), _FIGURES))
        self._sources = found.sources
        return found

    def series(self, origin: int, step: int) -> dict[str, NDArray[Any]]:
        """Count by source and interval. The workers keep their counts for `features`."""
        with self._told():
            if self._series is not None:
                self._series.unpersist()
            counted = self._spark.sql(SERIES.replace("//", "div"), [origin, step]).repartition("source")
            self._series = counted.sortWithinPartitions("source", "bin").persist(StorageLevel.MEMORY_AND_DISK)
            return _columns(self._series.toArrow().sort_by([("source", "ascending"), ("bin", "ascending")]))

    def features(self, counts: Counts, plan: SeriesPlan, levels: Levels, least: int) -> Features:  # noqa: ARG002 - see below
        """Compute the features of the sources on the workers, from the counts that `series` left there."""
        assert self._series is not None
        with self._told():
            features = self._series.mapInArrow(partial(_features, plan, levels, least), _SHAPES).toArrow()
        table = features.sort_by("source").combine_chunks()
        source, start, requests = (table.column(name).to_numpy() for name in ("source", "start", "requests"))
        rows = pa.compute.list_flatten(table.column("features")).to_numpy().reshape(len(source), len(NAMES))
        places = np.searchsorted(self._sources, unsigned("source", source)).astype(np.int64)
        return Features(places, start, requests, rows.copy(), plan.day is not None)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Report errors of Spark in one line."""
        try:
            yield
        except (PySparkException, Py4JError, OSError) as error:
            raise StoreError(f"Spark at {self._master}: {_reason(error)}") from None


def _columns(table: pa.Table) -> dict[str, NDArray[Any]]:
    return {name: unsigned(name, table.column(name).to_numpy()) for name in table.column_names}


def _count(facts: SiteFacts, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: yield the figures (`_FIGURES`) of the sources in *batches*."""
    found = count((_rows(batch) for batch in batches if batch.num_rows), facts)
    each = np.arange(len(found.sources) + 1)
    ends, behind = np.searchsorted(found.sessions[:, 0], each), np.searchsorted(found.who[:, 0], each)
    yield pa.record_batch(
        [
            pa.array(signed("source", found.sources)),
            pa.array(found.first),
            pa.array(found.last),
            _lists(found.values, each),
            _lists(found.sessions[:, 1:], ends),
            _lists(found.paths, ends),
            _lists(found.who[:, 1:], behind),
            _lists(found.windows, behind),
        ],
        names=["source", "first", "last", "figures", "steps", "paths", "who", "windows"],
    )


def _features(
    plan: SeriesPlan, levels: Levels, least: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On a worker: yield the features (`_SHAPES`) of the sources whose series are in *batches*."""
    some = [[batch.column(name).to_numpy(zero_copy_only=False) for name in ("source", "bin", "n")] for batch in batches]
    if not some:
        return
    source, bins, values = (np.concatenate(columns) for columns in zip(*some, strict=True))
    sources, rows = np.unique(source, return_inverse=True)
    counts = Counts(rows.astype(np.int64), np.clip(bins, 0, plan.bins - 1), values.astype(np.float64), len(sources))
    found = features(counts, plan, levels=levels, least=least)
    each = _lists(found.rows, np.arange(len(found.sources) + 1))
    columns = [pa.array(sources[found.sources]), pa.array(found.starts), pa.array(found.requests), each]
    yield pa.record_batch(columns, names=["source", "start", "requests", "features"])


def _rows(batch: pa.RecordBatch) -> Rows:
    rows = np.zeros(batch.num_rows, ROW)
    for name in COLUMNS:
        rows[name] = unsigned(name, batch.column(name).to_numpy(zero_copy_only=False))
    return rows


def _lists(table: NDArray[Any], ends: NDArray[np.int64]) -> pa.ListArray:
    """Return the rows of *table* as successive lists that end at *ends*."""
    return pa.ListArray.from_arrays(pa.array((ends * table.shape[1]).astype(np.int32)), pa.array(table.ravel()))


def _figures(counted: DataFrame) -> Figures:
    """Return the figures of all workers, sorted by source."""
    table = counted.toArrow().sort_by("source").combine_chunks()
    columns = {name: table.column(name) for name in ("source", "first", "last")}
    source, first, last = (column.to_numpy() for column in columns.values())
    each = np.arange(len(source))
    steps = pa.compute.list_value_length(table.column("steps")).to_numpy().astype(np.int64)
    whose = pa.compute.list_value_length(table.column("windows")).to_numpy().astype(np.int64) // windowing.WIDTH
    names = ("figures", "steps", "paths", "who", "windows")
    flat = {name: pa.compute.list_flatten(table.column(name)).to_numpy() for name in names}
    return Figures(
        unsigned("source", source).astype(np.uint64),
        first,
        last,
        flat["figures"].reshape(len(source), -1) if len(source) else np.zeros((0, len(FIGURES)), np.int64),
        np.column_stack((np.repeat(each, steps), flat["steps"])).astype(np.int64),
        flat["paths"].reshape(-1, WIDTH),
        np.column_stack((np.repeat(each, whose), flat["who"].reshape(-1, windowing.WHO - 1))).astype(np.int64),
        flat["windows"].reshape(-1, windowing.WIDTH),
    )


def _reason(error: BaseException) -> str:
    """Return the reason of an error in one line. An error on a worker is at the end of its trace."""
    text = str(error)
    if "JAVA_GATEWAY_EXITED" in text:
        return "Java does not start; install Java 17 or newer"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(": ")]
    raised = [line for line in lines if _RAISED.match(line)]
    reason = raised[-1] if isinstance(error, PythonException) and raised else (lines or [type(error).__name__])[0]
    return " ".join(reason.split())[:_LONGEST_REASON]
