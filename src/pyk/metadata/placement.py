"""Which brokers a new partition is on.

- The leaders go round the brokers that are alive. One round later the followers of each differ.
- The replicas of a partition are on as many racks as there are, and evenly there.
- A fenced broker leads nothing, and follows only where nobody else is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import Broker


def place(
    brokers: Iterable[Broker], count: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """The replicas of so many partitions, the leader first, from any place in the round.

    Raise KafkaError with INVALID_REPLICATION_FACTOR.
    """
    known = sorted(brokers, key=lambda broker: broker.broker_id)
    alive = _across_racks([broker for broker in known if not broker.fenced])
    fenced = _across_racks([broker for broker in known if broker.fenced])
    if not alive:
        raise _refusal("All brokers are currently fenced.")
    if replication_factor > len(known):
        raise _refusal(
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(known)} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )
    return [
        _replicas(alive, fenced, replication_factor, index) for index in range(start, start + count)
    ]


def _replicas(
    alive: Sequence[Broker], fenced: Sequence[Broker], replication_factor: int, index: int
) -> tuple[int, ...]:
    rounds, first = divmod(index, len(alive))
    others = [*alive[first + 1 :], *alive[:first]]
    shift = rounds % len(others) if others else 0
    pool = [*others[shift:], *others[:shift], *fenced]
    chosen = [alive[first]]
    racks = Counter([alive[first].rack])
    while len(chosen) < replication_factor:
        follower = min(pool, key=lambda broker: racks[broker.rack])
        pool.remove(follower)
        racks[follower.rack] += 1
        chosen.append(follower)
    return tuple(broker.broker_id for broker in chosen)


def _across_racks(brokers: Sequence[Broker]) -> list[Broker]:
    """Neighbours are on different racks, as far as that goes."""
    racks: dict[str | None, list[Broker]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker)
    rounds = chain.from_iterable(zip_longest(*racks.values()))
    return [broker for broker in rounds if broker is not None]


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
