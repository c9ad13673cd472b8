"""Records as columns, those of Spark's Kafka source, and as Arrow's batches.

Records become Python lists first, a batch of the log at a time, and Arrow's arrays are made of
many batches at once: two thirds of the time is the reading of the records themselves.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

from pyk.spark.splits import Found
from pyk.types import TopicPartition
from pyk.wire.records import Headers, Record, read_records

if TYPE_CHECKING:
    import pyarrow

ROWS_MAX: Final = 16 * 1024
BYTES_MAX: Final = 8 * 1024 * 1024
INFLATED_BYTES_MAX: Final = 256 * 1024 * 1024
"""What the records of a batch may inflate to."""


class Columns:
    """Rows that gather until there are enough of them."""

    def __init__(self, partition: TopicPartition, *, has_headers: bool) -> None:
        self._partition = partition
        self._has_headers = has_headers
        self._clear()

    def _clear(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.offsets: list[int] = []
        self.timestamps: list[int] = []
        self.timestamp_types: list[int] = []
        self.headers: list[Headers] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def is_full(self) -> bool:
        return len(self.offsets) >= ROWS_MAX or self._bytes >= BYTES_MAX

    def add(self, batch: Found) -> None:
        """The records of a batch that are wanted. Raise CorruptBatch, and none is added."""
        header, wanted = batch.header, batch.offsets
        records = list(read_records(batch.data, 0, header, bytes_max=INFLATED_BYTES_MAX))
        if header.base_offset < wanted.start or header.last_offset >= wanted.end:
            records = [record for record in records if record.offset in wanted]
        self._extend(records, int(header.timestamp_type))

    def _extend(self, records: list[Record], timestamp_type: int) -> None:
        values = [record.value for record in records]
        self._bytes += sum(map(len, filter(None, values)))
        self.values += values
        self.keys += [record.key for record in records]
        self.offsets += [record.offset for record in records]
        self.timestamps += [record.timestamp for record in records]
        self.timestamp_types += repeat(timestamp_type, len(records))
        if self._has_headers:
            self.headers += [record.headers for record in records]

    def take(self) -> pyarrow.RecordBatch:
        """All of them, which are then forgotten."""
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
        self._clear()
        return pyarrow.RecordBatch.from_pydict(columns)


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
