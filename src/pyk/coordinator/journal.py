"""The log of a shard: a partition of an internal topic, in terms of records."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import trio

from pyk.coordinator.machine import InTransaction, Payload, Record, TransactionEnd
from pyk.disk import File
from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.log.guards import UNGUARDED, Guard
from pyk.log.producers import Origin
from pyk.log.segment import Piece
from pyk.log.segments import CorruptLog
from pyk.replication.partition import ACKS_ALL, Marker, Partition, Produced
from pyk.sparing import Sparing
from pyk.turns import Work
from pyk.types import Buffer
from pyk.wire.batch import BatchHeader, check_crc, iterate_batches
from pyk.wire.compression import Compression, compress
from pyk.wire.prefixed import (
    ControlType,
    by_record_type,
    decode_control_type,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from pyk.wire.records import RECORDS_BYTES_MAX, build_batch_of, encode_records, read_records
from pyk.wire.records import Record as StoredRecord

if TYPE_CHECKING:
    from types import ModuleType

logger = logging.getLogger(__name__)

ENCODED_AT_ONCE: Final = 256
"""Records, before others may have their turn."""
READ_BYTES: Final = 1 << 20
"""How much of a log is read at a time."""
LOADED_BYTES_MAX: Final = 2**31 - 1
"""What the records of a compressed batch may inflate to when a shard is loaded. `append` allows no
more than others read, but a log may be older than that limit."""

_REFUSALS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a client of a coordinator hears when the log refuses."""


class LogUnreadable(Exception):
    """The log of a shard cannot be read, and where."""


class RecordTypes(NamedTuple):
    """What an internal topic holds."""

    keys: Mapping[int, type]
    values: Mapping[type, type]
    """By the type of the key."""


def record_types(*modules: ModuleType) -> RecordTypes:
    """All that are declared there: a `...Key` and its `...Value`."""
    values: dict[type, type] = {}
    for module in modules:
        for name, declared in vars(module).items():
            if name.endswith("Key") and isinstance(declared, type):
                values[declared] = getattr(module, name.removesuffix("Key") + "Value")
    return RecordTypes(by_record_type(*values), values)


class JournalOptions(NamedTuple):
    compression: Compression
    timeout: float
    """How long the replicas have to take what was appended, in seconds."""


class Journal:
    def __init__(self, partition: Partition, types: RecordTypes, options: JournalOptions) -> None:
        self._partition = partition
        self.leader_epoch = partition.leader_epoch
        """In which all that it appends is written: it is over when this broker stops leading."""
        self._types = types
        self._compression = options.compression
        self._timeout = options.timeout
        self._flush_due_before = -1
        self._unwritable = Sparing()
        self._waits: set[trio.CancelScope] = set()
        """For commits."""
        self._is_closed = False
        self._replayed_end = 0
        """Where the log ended when it was replayed."""
        self.unreadable = 0
        """Records of the log that were passed over."""

    @property
    def start_offset(self) -> int:
        return self._partition.log.start_offset

    @property
    def end_offset(self) -> int:
        return self._partition.log.end_offset

    @property
    def is_empty(self) -> bool:
        log = self._partition.log
        return log.start_offset == log.end_offset

    def append(
        self,
        records: Sequence[Record],
        now_ms: int,
        transaction: InTransaction | None = None,
        payload: Payload | None = None,
    ) -> None:
        """Add them in one batch, all or none. Raise KafkaError as clients are to hear it. `payload`
        is the records, if they are encoded already."""
        of_producer: dict[str, Any] = {}
        if transaction is not None:
            of_producer = {
                "producer_id": transaction.producer_id,
                "producer_epoch": transaction.producer_epoch,
                "is_transactional": True,
            }
        if payload is None:
            payload = self.compressed([self._encoded(records)])
        batch = build_batch_of(
            payload.data, len(records), now_ms, compression=payload.compression, **of_producer
        )
        try:
            self._partition.check_leads(self.leader_epoch)
            produced = self._partition.produce(
                batch,
                acks=ACKS_ALL,
                now_ms=now_ms,
                origin=Origin.COORDINATOR,
                guard=UNGUARDED if transaction is None else transaction.guard,
            )
        except KafkaError as refusal:
            raise as_coordinator(refusal) from refusal
        self._note(produced)

    def end_transaction(self, marker: Marker, now_ms: int) -> Produced:
        """Add a marker. Raise KafkaError as it is."""
        self._partition.check_leads(self.leader_epoch)
        produced = self._partition.end_transaction(marker, now_ms)
        self._note(produced)
        return produced

    def guard_for(self, producer_id: int, epoch: int) -> Guard | None:
        return self._partition.log.producers.guard_for(producer_id, epoch)

    def drop_guard(self, producer_id: int) -> None:
        self._partition.log.producers.drop_guard(producer_id)

    def _note(self, produced: Produced) -> None:
        if produced.is_flush_due:
            self._flush_due_before = produced.end_offset

    def encode_in_turns(self, records: Sequence[Record]) -> Work[list[bytes]]:
        """What `compressed` makes a payload of, for `append`: to encode many takes longer than to
        append them. Raise KafkaError."""
        pieces: list[bytes] = []
        left = self._encoded_bytes_max
        for start in range(0, len(records), ENCODED_AT_ONCE):
            piece = self._encoded(records[start : start + ENCODED_AT_ONCE], start)
            left -= len(piece)
            if left < 0:
                raise self._too_large()
            pieces.append(piece)
            yield
        return pieces

    def compressed(self, pieces: Sequence[bytes]) -> Payload:
        """It may be called in a thread. Raise KafkaError."""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if len(data) > self._encoded_bytes_max:
            raise self._too_large()
        return Payload(compress(self._compression, data), self._compression)

    @property
    def _encoded_bytes_max(self) -> int:
        """How many bytes the records of a batch may have before they are compressed: a batch is
        written only if whoever reads the log later is ready to inflate it."""
        if self._compression is Compression.NONE:
            return self._partition.log.config.max_message_bytes
        return RECORDS_BYTES_MAX

    def _too_large(self) -> KafkaError:
        return as_coordinator(
            KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the records have more than {self._encoded_bytes_max} bytes together",
            )
        )

    def _encoded(self, records: Sequence[Record], first_offset: int = 0) -> bytes:
        """Raise KafkaError."""
        try:
            stored = self.encoded(records, 0, first_offset)
        except (ValueError, struct.error) as wrong:
            # A client has asked for a number or a name that no record has room for.
            more = self._unwritable.next_line()
            if more is not None:
                what = self._partition.partition
                logger.exception("a record of %s cannot be written%s", what, more)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(wrong)) from wrong
        return encode_records(stored, base_offset=0, base_timestamp=0)

    def encoded(
        self, records: Sequence[Record], now_ms: int, first_offset: int = 0
    ) -> list[StoredRecord]:
        return [
            StoredRecord(
                offset,
                now_ms,
                encode_key(record.key),
                None if record.value is None else encode_value(record.value, record.version),
            )
            for offset, record in enumerate(records, start=first_offset)
        ]

    def prune(self, offset: int) -> None:
        """Let the log start there, as far as it is committed. It is no harm if it does not after a
        crash."""
        log = self._partition.log
        log.advance_start(min(offset, log.high_watermark))

    def is_committed(self, end_offset: int) -> bool:
        """Whether what is before that offset is where it has to be for an answer."""
        log = self._partition.log
        is_durable = end_offset > self._flush_due_before or end_offset <= log.flushed_end
        return is_durable and self._partition.is_committed(end_offset, self.leader_epoch)

    async def wait_committed(self, end_offset: int) -> None:
        """Raise KafkaError as clients are to hear it."""
        is_flush_due = end_offset <= self._flush_due_before
        scope = trio.CancelScope(deadline=trio.current_time() + self._timeout)
        if self._is_closed:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        self._waits.add(scope)
        try:
            with scope:
                await self._partition.wait_committed(
                    end_offset, self.leader_epoch, is_flush_due=is_flush_due
                )
        except KafkaError as refusal:
            raise as_coordinator(refusal) from refusal
        finally:
            self._waits.discard(scope)
        if scope.cancelled_caught:
            if self._is_closed:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
            raise as_coordinator(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    def close(self) -> None:
        """This broker is no longer the coordinator. Waits for commits end with NOT_COORDINATOR."""
        self._is_closed = True
        for scope in self._waits:
            scope.cancel()

    def replay(self) -> Iterator[Record]:
        """All that is in the log by now: what a new leader has not seen committed yet counts too,
        once it is. What belongs to a transaction says so, and the end of a transaction is a record
        too. Raise LogUnreadable."""
        log = self._partition.log
        offset, end_offset = log.start_offset, log.end_offset
        self._replayed_end = end_offset
        while offset < end_offset:
            try:
                piece = log.read(offset, READ_BYTES, end_offset)
                if piece is None:
                    return
                data = _bytes_of(piece)
                for position, header in iterate_batches(data, torn_tail_allowed=False):
                    if header.last_offset >= offset:
                        yield from self._of_batch(data, position, header)
                        offset = header.last_offset + 1
            except (ProtocolError, OSError, KafkaError, CorruptLog) as error:
                raise self._unreadable(offset, error) from error
            offset = piece.end_offset

    @property
    def is_replay_committed(self) -> bool:
        return self._partition.is_committed(self._replayed_end, self.leader_epoch)

    async def wait_replay_committed(self) -> None:
        """However long that takes. Raise KafkaError if this broker stops leading before."""
        await self._partition.wait_committed(
            self._replayed_end, self.leader_epoch, is_flush_due=False
        )

    def _of_batch(self, data: Buffer, position: int, header: BatchHeader) -> Iterator[Record]:
        check_crc(data, position, header)
        if header.is_control:
            end = _end_of_transaction(data, position, header)
            if end is not None:
                yield Record(end, None)
        elif header.is_transactional:
            for record in self._decoded(data, position, header):
                yield record._replace(producer_id=header.producer_id)
        else:
            yield from self._decoded(data, position, header)

    def _unreadable(self, offset: int, error: Exception) -> LogUnreadable:
        topic, number = self._partition.partition
        segment = self._partition.log.segment_offset(offset)
        return LogUnreadable(f"{topic}-{number}/{segment:020}.log, at offset {offset}: {error}")

    def _decoded(self, data: Buffer, position: int, header: BatchHeader) -> Iterator[Record]:
        for stored in read_records(data, position, header, bytes_max=LOADED_BYTES_MAX):
            try:
                record = self._record(stored)
            except ProtocolError:
                record = None
            if record is None:
                self.unreadable += 1
            else:
                yield record

    def _record(self, stored: StoredRecord) -> Record | None:
        key = None if stored.key is None else decode_key(self._types.keys, stored.key)
        if key is None:
            return None
        value: Any | None = None
        if stored.value is not None:
            value = decode_value(self._types.values[type(key)], stored.value)
        return Record(key, value, offset=stored.offset)


def as_coordinator(refusal: KafkaError) -> KafkaError:
    """What went wrong with a log, said to somebody who knows of groups only."""
    return KafkaError(_REFUSALS.get(refusal.code, refusal.code), refusal.message)


def _end_of_transaction(data: Buffer, position: int, header: BatchHeader) -> TransactionEnd | None:
    """None for a marker that compaction has emptied: what it ended is gone too."""
    for marker in read_records(data, position, header):
        kind = decode_control_type(marker.key)
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            return TransactionEnd(header.producer_id, kind == ControlType.COMMIT)
    return None


def _bytes_of(piece: Piece) -> bytes:
    records = piece.records
    return cast("File", records.file).read(records.position, records.size)
