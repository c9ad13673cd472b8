"""Records as columns, those of Spark's Kafka source, and as Arrow's batches.

Records become Python lists first, a batch of the log at a time, and Arrow's arrays are made of
many batches at once: two thirds of the time is the reading of the records themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Final

from pyk.spark.bounds import Interval
from pyk.spark.plan import Split
from pyk.spark.splits import Found, Policy, read_split
from pyk.types import TopicPartition
from pyk.wire.compression import CorruptBatch
from pyk.wire.records import Headers, read_records

if TYPE_CHECKING:
    import pyarrow

ROWS_MAX: Final = 16 * 1024
BYTES_MAX: Final = 8 * 1024 * 1024
INFLATED_BYTES_MAX: Final = 256 * 1024 * 1024
"""What the records of a batch may inflate to."""
TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000
"""Spark counts microseconds, up to the year 294,000. There is nothing later for a column."""


class Rows:
    """The records of a batch that are wanted."""

    def __init__(self, batch: Found, *, has_headers: bool) -> None:
        """Raise CorruptBatch."""
        header, wanted = batch.header, batch.offsets
        records = list(read_records(batch.data, 0, header, bytes_max=INFLATED_BYTES_MAX))
        if header.base_offset < wanted.start or header.last_offset >= wanted.end:
            records = [record for record in records if record.offset in wanted]
        self.keys = [record.key for record in records]
        self.values = [record.value for record in records]
        self.offsets = [record.offset for record in records]
        self.timestamps = [record.timestamp for record in records]
        self.timestamp_type = int(header.timestamp_type)
        self.headers = [record.headers for record in records] if has_headers else []
        if max(map(abs, self.timestamps), default=0) > TIMESTAMP_MS_MAX:
            times = zip(self.offsets, self.timestamps, strict=True)
            offset, time = next(each for each in times if abs(each[1]) > TIMESTAMP_MS_MAX)
            raise CorruptBatch(f"offset {offset} has the time {time}, which Spark cannot have")
        self.size = sum(map(len, filter(None, self.keys))) + sum(
            map(len, filter(None, self.values))
        )
        self.size += sum(
            len(name) + len(value or b"") for headers in self.headers for name, value in headers
        )


class Columns:
    """Rows that gather until there are enough of them."""

    def __init__(self, partition: TopicPartition, *, has_headers: bool) -> None:
        self._partition = partition
        self._has_headers = has_headers
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.offsets: list[int] = []
        self.timestamps: list[int] = []
        self.timestamp_types: list[int] = []
        self.headers: list[Headers] = []
        self.size = 0
        """In bytes, of keys, values and headers."""

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def is_full(self) -> bool:
        return len(self.offsets) >= ROWS_MAX or self.size >= BYTES_MAX

    def has_room_for(self, rows: Rows) -> bool:
        """Whether they are not too much beside those that are there. Alone nothing is too much."""
        return not self.offsets or self.size + rows.size <= BYTES_MAX

    def add(self, rows: Rows) -> None:
        self.size += rows.size
        self.keys += rows.keys
        self.values += rows.values
        self.offsets += rows.offsets
        self.timestamps += rows.timestamps
        self.timestamp_types += repeat(rows.timestamp_type, len(rows.offsets))
        self.headers += rows.headers

    def arrow(self) -> pyarrow.RecordBatch:
        import pyarrow

        count, (topic, partition) = len(self), self._partition
        milliseconds = pyarrow.array(self.timestamps, pyarrow.timestamp("ms", "UTC"))
        columns = {
            "key": pyarrow.array(self.keys, pyarrow.binary()),
            "value": pyarrow.array(self.values, pyarrow.binary()),
            "topic": pyarrow.repeat(pyarrow.scalar(topic, pyarrow.string()), count),
            "partition": pyarrow.repeat(pyarrow.scalar(partition, pyarrow.int32()), count),
            "offset": pyarrow.array(self.offsets, pyarrow.int64()),
            "timestamp": milliseconds.cast(pyarrow.timestamp("us", "UTC")),
            "timestampType": pyarrow.array(self.timestamp_types, pyarrow.int32()),
        }
        if self._has_headers:
            columns["headers"] = _header_column(self.headers)
        return pyarrow.RecordBatch.from_pydict(columns)


def filled(
    split: Split, timestamps: Interval, policy: Policy, *, has_headers: bool
) -> Iterator[Columns]:
    """The rows of a split, so many at a time as are good to have at once. Raise LogDamaged,
    DataLost."""
    columns = Columns(split.partition, has_headers=has_headers)
    for batch in read_split(split, timestamps, policy):
        try:
            rows = Rows(batch, has_headers=has_headers)
        except CorruptBatch as wrong:
            policy.damage(batch.damage(wrong), batch.position + batch.header.size)
            continue
        if not columns.has_room_for(rows):
            yield columns
            columns = Columns(split.partition, has_headers=has_headers)
        columns.add(rows)
        if columns.is_full:
            yield columns
            columns = Columns(split.partition, has_headers=has_headers)
    if len(columns):
        yield columns


def _header_column(headers: list[Headers]) -> pyarrow.Array:
    """Records without headers have null, as in Kafka's source."""
    import pyarrow

    fields = [pyarrow.field("key", pyarrow.string()), pyarrow.field("value", pyarrow.binary())]
    of_record = pyarrow.list_(pyarrow.field("element", pyarrow.struct(fields)))
    rows = [[(_as_java(key), value) for key, value in each] or None for each in headers]
    return pyarrow.array(rows, of_record)


def _as_java(key: str) -> str:
    """What is not UTF-8 is replaced, as Java's readers do."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
