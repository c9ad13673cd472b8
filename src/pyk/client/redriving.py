"""Sending dead letters back to where they came from, each of them once.

    look: which letters are left -> say what is about to be sent -> send -> say that it was

How far it is, is kept as offsets of a consumer group for each group and topic that letters are
from, so that it does not matter in which order they are chosen. What was about to be sent when an
earlier run was interrupted is looked for where it was to go, and sent only if it is not there: by
the same producer and as the same batch, so that brokers drop what may still be on its way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyk.client.cluster import Cluster
from pyk.client.group_offsets import FOR_EVER_MS, commit_offsets, fetch_offsets
from pyk.client.offsets import EARLIEST, LATEST, Isolation, find_offsets
from pyk.client.producing import Identity, new_identity, send_batch
from pyk.client.reading import Reader, Span
from pyk.client.redrive_progress import GROUP_PREFIX, Progress, Sending, parse_progress
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.dead_letters import Origin, read_origin, without_context
from pyk.wire.records import Record, build_batch

LETTERS_AT_ONCE: Final = 500
BYTES_AT_ONCE: Final = 256 * 1024
_NEVER_SENT: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""What is refused so, and is not there, never will be: it is sent in another way."""


class Source(NamedTuple):
    """Whose letters, and of which topic."""

    group_id: str
    topic: str

    @property
    def kept_by(self) -> str:
        """The consumer group whose offsets say how far they are sent."""
        return f"{GROUP_PREFIX}{self.group_id}/{self.topic}"


class Letter(NamedTuple):
    dead_partition: int
    record: Record
    origin: Origin

    @property
    def source(self) -> Source:
        return Source(self.origin.group_id, self.origin.topic)

    @property
    def size(self) -> int:
        record = self.record
        return len(record.key or b"") + len(record.value or b"") + 64 + 64 * len(record.headers)


class Place(NamedTuple):
    """Where letters are, and where they go."""

    source: Source
    partition: int
    dead_partition: int


@dataclass(slots=True)
class Outcome:
    count: int = 0
    start: int = 0
    end: int = 0
    """The offsets of the letters, without the end."""
    found: int = 0
    """Of these, sent by a run that was interrupted before it could say so."""
    error: KafkaError | None = None

    def add(self, letters: list[Letter]) -> None:
        if not self.count:
            self.start = letters[0].record.offset
        self.count += len(letters)
        self.end = letters[-1].record.offset + 1


@dataclass(slots=True)
class Choice:
    """Which letters are wanted."""

    spans: Mapping[TopicPartition, Span]
    """Of what is committed."""
    groups: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    """None of either is all."""
    count_max: int | None = None
    is_ranged: bool = False
    """Whether the spans are not all that there is."""

    def has(self, source: Source) -> bool:
        return (not self.groups or source.group_id in self.groups) and (
            not self.topics or source.topic in self.topics
        )


@dataclass(slots=True)
class _Batch:
    letters: list[Letter] = field(default_factory=list)
    size: int = 0


class Redrive:
    """Of one topic of dead letters. One at a time: two would not know of each other."""

    def __init__(self, cluster: Cluster, topic: str, choice: Choice) -> None:
        self.outcomes: dict[Place, Outcome] = {}
        self.others = 0
        """Records that are no dead letters."""
        self.left_behind = 0
        """Letters that are wanted and not known to be sent, since these or others before them were
        refused."""
        self._cluster = cluster
        self._topic = topic
        self._choice = choice
        self._progress: dict[Source, dict[int, Progress]] = {}
        self._failed: set[Source] = set()
        self._identity: Identity | None = None
        self._sequences: dict[TopicPartition, int] = {}

    def plan(self) -> None:
        """Only look. Raise KafkaError."""
        for letter in self._letters():
            self._outcome(letter).add([letter])

    def carry_out(self) -> None:
        """Raise KafkaError if the letters cannot be read. What cannot be sent is in `outcomes`, as
        is, whatever this ends by, what was acknowledged."""
        batches: dict[tuple[Source, int], _Batch] = {}
        for letter in self._letters(sends=True):
            key = letter.source, letter.dead_partition
            batch = batches.setdefault(key, _Batch())
            if batch.letters and (
                batch.letters[-1].origin != letter.origin
                or len(batch.letters) == LETTERS_AT_ONCE
                or batch.size + letter.size > BYTES_AT_ONCE
            ):
                self._deliver(batch.letters)
                batch = batches[key] = _Batch()
            batch.letters.append(letter)
            batch.size += letter.size
        for batch in batches.values():
            self._deliver(batch.letters)

    # Which letters

    def _letters(self, *, sends: bool = False) -> Iterator[Letter]:
        """Those that are wanted and not sent yet, by partition and offset."""
        left = self._choice.count_max
        for partition, span in sorted(self._choice.spans.items()):
            for received in self._read(partition, span):
                letter = self._letter(partition.partition, received.record, sends=sends)
                if letter is None:
                    continue
                if left == 0:
                    return
                left = None if left is None else left - 1
                yield letter

    def _letter(self, number: int, record: Record, *, sends: bool) -> Letter | None:
        origin = read_origin(record.headers)
        if origin is None:
            self.others += 1
            return None
        letter = Letter(number, record, origin)
        source = letter.source
        if not self._choice.has(source):
            return None
        if source not in self._progress:
            self._progress[source] = self._kept(source)
            self._settle(source, sends=sends)
        if self._of(letter).has(record.offset):
            return None
        if source in self._failed:
            self.left_behind += 1
            return None
        return letter

    def _read(self, partition: TopicPartition, span: Span) -> Reader:
        return Reader(self._cluster, {partition: span}, Isolation.READ_COMMITTED)

    def _kept(self, source: Source) -> dict[int, Progress]:
        """Raise KafkaError."""
        found = fetch_offsets(self._cluster, [source.kept_by])[source.kept_by]
        if isinstance(found, KafkaError):
            raise found
        return {
            partition.partition: parse_progress(each.offset, each.metadata)
            for partition, each in found.items()
            if partition.topic == self._topic
        }

    def _of(self, letter: Letter) -> Progress:
        return self._progress[letter.source].get(letter.dead_partition, Progress())

    def _outcome(self, letter: Letter) -> Outcome:
        place = Place(letter.source, letter.origin.partition, letter.dead_partition)
        return self.outcomes.setdefault(place, Outcome())

    # What an earlier run was about to send

    def _settle(self, source: Source, *, sends: bool) -> None:
        for number, progress in list(self._progress[source].items()):
            sending = progress.sending
            if sending is None:
                continue
            try:
                letters = self._again(source, number, progress, sending)
                is_there = self._is_there(source, sending)
                if is_there and letters:
                    self._outcome(letters[0]).found += len(letters)
                if sends and letters and not is_there:
                    self._send(letters, sending)
                    self._outcome(letters[0]).add(letters)
                if sends or is_there:
                    self._keep(source, number, progress.sent(*sending[:2]), only_here=not sends)
            except KafkaError as refused:
                if refused.code not in _NEVER_SENT:
                    self._fail(source, sending.partition, number, refused)
                else:
                    self._keep(source, number, progress._replace(sending=None))

    def _again(
        self, source: Source, number: int, progress: Progress, sending: Sending
    ) -> list[Letter]:
        """The letters that were about to be sent."""
        origin, at = Origin(*source, sending.partition), TopicPartition(self._topic, number)
        start = find_offsets(self._cluster, {at: EARLIEST})[at]
        return [
            Letter(number, each.record, origin)
            for each in self._read(at, Span(max(start, sending.base), sending.end))
            if read_origin(each.record.headers) == origin and not progress.has(each.record.offset)
        ]

    def _is_there(self, source: Source, sending: Sending) -> bool:
        """Raise KafkaError, also if nobody can tell any more."""
        target = TopicPartition(source.topic, sending.partition)
        start = find_offsets(self._cluster, {target: EARLIEST})[target]
        end = find_offsets(self._cluster, {target: LATEST})[target]
        written = sending.producer_id, sending.sequence
        span = Span(max(start, sending.after), end)
        if any(
            (each.producer_id, each.sequence) == written
            for each in Reader(self._cluster, {target: span})
        ):
            return True
        if start > sending.after:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"a redrive was interrupted, and {source.topic}-{sending.partition} has been "
                f"trimmed since: nobody can tell whether the letters {sending.base} to "
                f"{sending.end - 1} were sent. pyk group delete {source.kept_by} forgets how far "
                "it was",
            )
        return False

    # Sending

    def _deliver(self, letters: list[Letter]) -> None:
        """Letters of one source that go to one partition."""
        first, source = letters[0], letters[0].source
        if source in self._failed:
            self.left_behind += len(letters)
            return
        target = TopicPartition(source.topic, first.origin.partition)
        number = first.dead_partition
        try:
            sending = self._about(target, letters)
            self._keep(source, number, self._of(first).about(sending))
            self._send(letters, sending)
        except KafkaError as refused:
            self._give_up_identity()
            if refused.code is ErrorCode.MESSAGE_TOO_LARGE and len(letters) > 1:
                middle = len(letters) // 2
                self._deliver(letters[:middle])
                self._deliver(letters[middle:])
                return
            self.left_behind += len(letters)
            self._fail(source, target.partition, number, refused)
            return
        self._outcome(first).add(letters)
        try:
            self._keep(source, number, self._of(first).sent(self._from(first), sending.end))
        except KafkaError as refused:
            self._fail(source, target.partition, number, refused)

    def _from(self, first: Letter) -> int:
        """Before the letter there is none left, unless only a range is wanted."""
        if not self._choice.is_ranged:
            return 0
        return self._choice.spans[TopicPartition(self._topic, first.dead_partition)].start

    def _about(self, target: TopicPartition, letters: list[Letter]) -> Sending:
        if self._identity is None:
            self._identity = new_identity(self._cluster)
        return Sending(
            letters[0].record.offset,
            letters[-1].record.offset + 1,
            target.partition,
            find_offsets(self._cluster, {target: LATEST})[target],
            *self._identity,
            self._sequences.get(target, 0),
        )

    def _give_up_identity(self) -> None:
        """What is noted under its next sequence number may be in the log, or come there yet: no
        other letters may have that number."""
        self._identity = None
        self._sequences.clear()

    def _send(self, letters: list[Letter], sending: Sending) -> None:
        """Raise KafkaError."""
        now_ms = time.time_ns() // 1_000_000
        target = TopicPartition(letters[0].origin.topic, sending.partition)
        batch = build_batch(
            [
                Record(n, now_ms, old.key, old.value, without_context(old.headers))
                for n, (_, old, _) in enumerate(letters)
            ],
            producer_id=sending.producer_id,
            producer_epoch=sending.producer_epoch,
            base_sequence=sending.sequence,
        )
        send_batch(self._cluster, target, batch)
        if self._identity == (sending.producer_id, sending.producer_epoch):
            self._sequences[target] = sending.sequence + len(letters)

    def _keep(
        self, source: Source, number: int, progress: Progress, *, only_here: bool = False
    ) -> None:
        """Raise KafkaError."""
        self._progress[source][number] = progress
        if only_here:
            return
        at = TopicPartition(self._topic, number)
        (error,) = commit_offsets(
            self._cluster,
            source.kept_by,
            {at: progress.position},
            metadata=progress.metadata,
            retention_ms=FOR_EVER_MS,
        ).values()
        if error is not None:
            raise KafkaError(error.code, f"how far it is cannot be kept: {error}")

    def _fail(self, source: Source, partition: int, number: int, refused: KafkaError) -> None:
        """The others of the source stay where they are, too: they come after these."""
        self._failed.add(source)
        self.outcomes.setdefault(Place(source, partition, number), Outcome()).error = refused
