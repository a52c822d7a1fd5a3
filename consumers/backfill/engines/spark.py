"""Splits as tasks of Spark.

Rule: Spark gets the numbers of the splits, one a task, and returns their models. It never sees a
record, so how it distributes, repeats or speculates cannot change what a model learns. The models
are merged here, in the order of the splits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from consumers.backfill.fit import Fitted, Job, fit
from consumers.backfill.manifest import Split
from consumers.base.errors import ConfigError, HeadwaterError, TransportError
from consumers.base.extras import install
from stream.errors import StreamError

__all__ = ["run"]

AT_ONCE = 64  # splits of one job of Spark, at least: the models of so many are here together
EACH = 4  # or so many for each core
DEFAULTS = {  # progress and errors are reported by the command
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_FIELDS = "number long, fitted binary, error string"
_decode = msgspec.msgpack.Decoder(Fitted).decode


def run(
    job: Job,
    splits: Sequence[Split],
    progress: Callable[[int], None],
    master: str,
    settings: Mapping[str, str],
) -> Iterator[Fitted]:
    """Learn the splits on a Spark cluster.

    Parameters
    ----------
    master
        The master, as Spark names it: `local[4]`, `spark://HOST:7077`, `yarn`.
    settings
        Settings of Spark, such as `spark.executor.memory`.

    Raises
    ------
    ConfigError
        Spark is not installed, or a split cannot be learned.
    TransportError
        A task failed as often as Spark repeats it.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError(
            f"--engine spark needs pyspark, which is not installed; run `{install('spark')}`"
        ) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # a worker imports no file of its folder
    builder = SparkSession.builder.appName(f"headwater backfill {job.config.name}").master(master)
    for name, value in {**DEFAULTS, **settings}.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        try:
            step = max(AT_ONCE, EACH * session.sparkContext.defaultParallelism)
            for first in range(0, len(splits), step):
                yield from _tasks(session, job, splits[first : first + step], progress)
        finally:
            session.stop()
    except PySparkException as error:
        raise TransportError(f"Spark at {master} failed: {_line(error)}") from None


def _tasks(
    session: Any, job: Job, splits: Sequence[Split], progress: Callable[[int], None]
) -> Iterator[Fitted]:
    """Learn these splits, each in a task of its own."""
    number = [split.number for split in splits]
    rows = session.range(0, len(splits), 1, len(splits))
    learned = rows.mapInArrow(_learning(job, splits), _FIELDS).collect()
    for row in sorted(learned, key=lambda row: int(row.number)):
        if row.error is not None:
            raise ConfigError(f"split {number[row.number]}: {row.error}")
        fitted = _decode(row.fitted)
        progress(fitted.counts["records"])
        yield fitted


def _learning(job: Job, splits: Sequence[Split]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does with its rows, which are numbers of `splits`."""

    def learn(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for place in batch.column(0).to_pylist():
                fitted, error = None, None
                try:
                    fitted = msgspec.msgpack.encode(fit(job, splits[place]))
                except TransportError:
                    raise  # another attempt may succeed
                except (HeadwaterError, StreamError) as failed:
                    error = str(failed)
                columns = [[place], [fitted], [error]]
                kinds = [pa.int64(), pa.binary(), pa.string()]
                arrays = [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)]
                yield pa.record_batch(arrays, ["number", "fitted", "error"])

    return learn


def _line(error: Exception) -> str:
    """The cause of a failure of Spark: the last line of Python's traceback, or its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ends = [line for line in lines if "Error: " in line and not line.startswith(("at ", "["))]
    return (ends or lines or [type(error).__name__])[0][:500]
