"""Which version of transactions a client speaks, by what it leaves in a log."""

from __future__ import annotations

from tests.clients.transactions.coordinator import Batch, written_batches
from tests.clients.transactions.play import Play

EPOCHS = {
    1: [Batch(0, False), Batch(0, True), Batch(0, False), Batch(0, True)],
    2: [Batch(0, False), Batch(1, True), Batch(1, False), Batch(2, True)],
}
"""Of two transactions: in the second version (KIP-890) a marker has the next epoch, and so has what
comes after it."""


def test_the_epoch_grows_with_every_transaction_of_the_second_version(play: Play) -> None:
    (partition,) = play.topic()
    producer = play.producer()
    for outcome in ("commit", "abort"):
        producer.begin()
        producer.send(partition, outcome)
        producer.do(outcome)
    assert written_batches(play.address, partition) == EPOCHS[play.kind.version]
    assert producer.described().epoch == EPOCHS[play.kind.version][-1].epoch
