"""Logs on disk for readers without a broker, and what those make of them. Spark is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pyk.disk import RealDisk
from pyk.log.checkpoints import RECOVERY_POINTS, write_offsets
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.producers import Origin
from pyk.spark.bounds import EVERYTHING, Bounds
from pyk.spark.columns import filled
from pyk.spark.options import ReadOptions
from pyk.spark.plan import Split, plan
from pyk.spark.splits import Policy
from pyk.types import TopicPartition
from pyk.wire.batch import BatchHeader, iterate_batches
from pyk.wire.compression import Compression
from pyk.wire.prefixed import ControlType, encode_end_marker
from pyk.wire.records import Record, build_batch, read_records
from tests.log.readers import is_aborted

NOW = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)


@dataclass
class Writer:
    """Fills the log of `t-0` in a data directory."""

    root: Path
    config: LogConfig = CONFIG
    name: str = "t-0"
    sequences: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = Log.open(RealDisk(), self.root / self.name, self.config)

    def put(
        self,
        count: int = 3,
        *,
        producer: int = -1,
        codec: Compression = Compression.NONE,
        keys: int = 5,
    ) -> None:
        """A batch, in a transaction if it has a producer."""
        end = self.log.end_offset
        records = [
            Record(n, NOW + 10 * (end + n), b"k%d" % ((end + n) % keys), b"%d" % (end + n) * 9)
            for n in range(count)
        ]
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        self.sequences[producer] = sequence + count
        self.append(
            build_batch(
                records,
                compression=codec,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence,
                is_transactional=producer >= 0,
            )
        )

    def end(self, producer: int, outcome: ControlType) -> None:
        key, value = encode_end_marker(outcome, 0)
        marker = build_batch(
            [Record(0, NOW, key, value)],
            producer_id=producer,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        self.append(marker, Origin.COORDINATOR)

    def append(self, batch: bytes, origin: Origin = Origin.CLIENT) -> None:
        self.log.append(bytearray(batch), leader_epoch=0, now_ms=NOW, origin=origin)
        self.log.advance_high_watermark(self.log.end_offset)

    def close(self) -> None:
        """As a broker does that is stopped."""
        self.log.close()
        self.checkpoint()

    def checkpoint(self) -> None:
        topic, _, number = self.name.rpartition("-")
        points = {TopicPartition(topic, int(number)): self.log.flushed_end}
        write_offsets(RealDisk(), self.root / RECOVERY_POINTS, points)

    def committed(self) -> list[int]:
        """The offsets that a broker shows to readers of committed records."""
        log = self.log
        aborted = log.aborted(log.start_offset, log.last_stable_offset)
        return [
            record.offset
            for batch, header in self._batches()
            if not header.is_control and not is_aborted(header, aborted)
            for record in batch
            if log.start_offset <= record.offset < log.last_stable_offset
        ]

    def records(self) -> list[Record]:
        """What a broker shows to readers of everything."""
        return [
            record
            for batch, header in self._batches()
            if not header.is_control
            for record in batch
            if record.offset >= self.log.start_offset
        ]

    def _batches(self) -> Iterator[tuple[list[Record], BatchHeader]]:
        offset = self.log.start_offset
        while (piece := self.log.read(offset, 1024**2, self.log.end_offset)) is not None:
            data = piece.records.file.read(piece.records.position, piece.records.size)  # type: ignore[attr-defined]
            for position, header in iterate_batches(data, torn_tail_allowed=False):
                yield list(read_records(data, position, header)), header
            offset = piece.end_offset


def transactions(writer: Writer, seed: int, turns: int = 60) -> None:
    """Some producers, whose transactions overlap, and one that is left open for a while."""
    random = Random(seed)
    opened: set[int] = set()
    for _ in range(turns):
        producer = random.randrange(4)
        if random.random() < 0.2:
            writer.put(random.randint(1, 4))
        elif producer in opened and random.random() < 0.5:
            writer.end(producer, random.choice([ControlType.ABORT, ControlType.COMMIT]))
            opened.discard(producer)
        else:
            writer.put(random.randint(1, 4), producer=producer, codec=random.choice([*Compression]))
            opened.add(producer)


def options(root: Path, **more: str) -> ReadOptions:
    return ReadOptions.parse({"path": str(root), "subscribe": "t", **more})


def read(
    wanted: ReadOptions, bounds: Bounds = EVERYTHING, reports: list[str] | None = None
) -> list[Record]:
    """The rows that tasks come to, in the order of splits."""
    splits = plan(wanted, bounds)
    return [record for split in splits for record in read_one(split, wanted, bounds, reports)]


def read_one(
    split: Split,
    wanted: ReadOptions,
    bounds: Bounds = EVERYTHING,
    reports: list[str] | None = None,
) -> list[Record]:
    report = [] if reports is None else reports
    policy = Policy(report.append, wanted.skips_damage, wanted.fails_on_data_loss)
    return [
        record
        for columns in filled(split, bounds.timestamp_ms, policy, has_headers=True)
        for record in map(
            Record,
            columns.offsets,
            columns.timestamps,
            columns.keys,
            columns.values,
            columns.headers,
        )
    ]


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def damage(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def segments(writer: Writer) -> list[Path]:
    return sorted(writer.log.directory.glob("*.log"))
