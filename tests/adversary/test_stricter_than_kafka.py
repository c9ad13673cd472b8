"""What pyk refuses to requests that come late, and Apache Kafka does not."""

from __future__ import annotations

from pyk.errors import ErrorCode
from tests.adversary.attacked import Attacked, deliver, end, write
from tests.adversary.proxy import Way


async def test_what_goes_on_late_does_not_abort_the_transaction_of_who_went_on(
    attacked: Attacked,
) -> None:
    """InitProducerId of a client who has an epoch (KIP-360), sent again, and delivered in the
    transaction after that."""
    producer = await attacked.producer()
    assert await producer.init(Way.HELD, goes_on=True) is None
    assert await producer.init(goes_on=True) == ErrorCode.NONE
    first = await write(producer, "first")
    await end(producer, first, commit=True)
    second = await write(producer, "second")
    assert await deliver(producer.caught[0]) == ErrorCode.PRODUCER_FENCED
    await end(producer, second, commit=True)
    assert await attacked.anomalies([first, second]) == []
