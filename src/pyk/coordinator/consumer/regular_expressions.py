"""Subscriptions by regular expression, in the language of RE2, which Kafka has from re2j.

Python's own `re` would not do: it speaks another language, and a client could send it a pattern
that takes longer than the universe lasts. RE2 takes time in proportion to what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pyk.coordinator.metadata_hash import topic_hash
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import NEVER, ClusterImage, Topic

if TYPE_CHECKING:
    import re2

MEMORY_BYTES_MAX = 1 << 20
"""What one expression may need. RE2's own limit is eight times as much."""
LENGTH_MAX = 1 << 16
"""In characters. One that is longer needs more memory than that, and RE2 has to read it to say so.
"""
TAKEN_BYTES_MAX = 1 << 18
"""About so many bytes of names are written down at a time."""
EFFORT_MAX = 30.0
"""Seconds that one expression may take for the names of all topics."""


class Matches(NamedTuple):
    """The topics that matched an expression when it was last tried."""

    topics: frozenset[str]
    version: int
    """The revision of the image that had these topics."""
    timestamp: int
    """In milliseconds."""


class NoExpression(ValueError):
    """What RE2 says is wrong with it."""


def check(regex: str) -> None:
    """Raise KafkaError if it is none."""
    try:
        _compiled(regex)
    except NoExpression as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:LENGTH_MAX]}` is not a valid regular expression: "
            f"{error}.",
        ) from error


def matching(regex: str, topics: Iterable[str]) -> frozenset[str]:
    """Those of the topics whose whole names match. An expression that is none matches nothing: it
    may be in the log of another broker."""
    found = set[str]()
    for _ in tried(regex, topics, found):
        pass
    return frozenset(found)


def tried(regex: str, topics: Iterable[str], found: set[str]) -> Iterator[None]:
    """Put what matches into `found`, a name in each step."""
    try:
        compiled = _compiled(regex)
    except NoExpression:
        return
    for name in topics:
        if compiled.fullmatch(name):
            found.add(name)
        yield


class Search:
    """Which topics of an image match the expressions of a group. It is made by one who has time,
    in any thread, and step by step, since an expression may need milliseconds for each name.

    What matched an expression before is not tried again. An expression that takes longer than all
    of them may together is given up, with what it has matched until then.
    """

    def __init__(
        self, group_id: str, known: Mapping[str, Matches | None], image: ClusterImage
    ) -> None:
        """`known` has all expressions, and what is known to match. Of the topics that there were
        then only those that matched still do."""
        self.group_id = group_id
        self.revision = image.revision
        self.given_up: list[str] = []
        self.hashes: dict[str, tuple[Topic, int]] = {}
        """Of the topics that match: what the group will have to know of them."""
        self._known = known
        self._image = image
        self._found: dict[str, frozenset[str]] = {}

    @property
    def has_found(self) -> bool:
        return bool(self._found)

    def take_found(self) -> dict[str, frozenset[str]]:
        """What matches some of those expressions that were tried, as much as fits a batch of
        records if it can."""
        taken: dict[str, frozenset[str]] = {}
        size = 0
        for regex, topics in list(self._found.items()):
            size += sum(map(len, topics)) + 4 * len(topics)
            if taken and size > TAKEN_BYTES_MAX:
                break
            taken[regex] = self._found.pop(regex)
        return taken

    def work(self, clock: Callable[[], float]) -> Iterator[None]:
        """Each step takes a moment. `clock` says how long this has worked, in seconds."""
        topics = self._image.topics
        names: dict[int, list[str]] = {}
        for regex, known in self._known.items():
            version = NEVER if known is None else known.version
            if version not in names:
                names[version] = [name for name, t in topics.items() if t.revision > version]
                yield
            found = set(() if known is None else known.topics & topics.keys())
            ends = clock() + EFFORT_MAX
            for _ in tried(regex, names[version], found):
                yield
                if clock() > ends:
                    self.given_up.append(regex)
                    break
            for name in found - self.hashes.keys():
                self.hashes[name] = topics[name], topic_hash(topics[name], self._image)
                yield
            self._found[regex] = frozenset(found)


def _compiled(regex: str) -> re2._Regexp:
    # Imported by who needs it: most brokers never do, and start sooner.
    import re2

    if len(regex) > LENGTH_MAX:
        raise NoExpression(f"it is longer than {LENGTH_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    try:
        return re2.compile(regex, options=options)
    except re2.error as error:
        reason: bytes = error.args[0]
        raise NoExpression(reason.decode(errors="replace")) from error
