"""Where a request that comes late has an effect in Apache Kafka, and has none in pyk."""

from __future__ import annotations

from compat_tests.adversary.conftest import Fronted
from pyk.errors import ErrorCode
from tests.adversary.attacked import Attacked, deliver, end, write
from tests.adversary.oracle import Outcome
from tests.adversary.proxy import Way


async def test_what_goes_on_late_aborts_the_transaction_of_who_went_on_in_kafka_only(
    attacked: Attacked, fronted: Fronted
) -> None:
    """It is aborted as a whole, and its client is told: nothing is torn by it."""
    producer = await attacked.producer()
    assert await producer.init(Way.HELD, goes_on=True) is None
    assert await producer.init(goes_on=True) == ErrorCode.NONE
    first = await write(producer, "first")
    await end(producer, first, commit=True)
    second = await write(producer, "second")
    said = await deliver(producer.caught[0])
    told = await producer.end(commit=True)
    if fronted.name == "kafka":
        assert said == ErrorCode.CONCURRENT_TRANSACTIONS, "it aborts, and says to ask again"
        assert told != ErrorCode.NONE
    else:
        assert (said, told) == (ErrorCode.PRODUCER_FENCED, ErrorCode.NONE)
        second.outcome = Outcome.COMMITTED
    assert await attacked.anomalies([first, second]) == []
