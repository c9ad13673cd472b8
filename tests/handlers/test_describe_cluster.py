"""DescribeCluster: who is there, and where a client reaches them."""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode
from pyk.handlers import describe_cluster
from pyk.handlers.context import Context
from pyk.metadata.records import BrokerRecord, Listener
from pyk.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.handlers.brokers import CLUSTER_ID, NODE_ID, ask, open_context

NOT_ASKED_FOR = -(2**31)
FENCED = BrokerRecord((Listener("PLAINTEXT", "there", 9092),), fenced=True)


async def answered(
    broker: Context,
    version: int = 2,
    *,
    endpoint_type: int = 1,
    operations: bool = False,
    fenced: bool = False,
) -> DescribeClusterResponse:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=operations,
        endpoint_type=endpoint_type,
        include_fenced_brokers=fenced,
    )
    return await ask(describe_cluster.handle, describe_cluster.refuse, request, broker, version)


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_has_an_id_a_controller_and_brokers(
    broker: Context, version: int
) -> None:
    response = await answered(broker, version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, NODE_ID)
    [here] = response.brokers
    assert (here.broker_id, here.host, here.port, here.rack) == (NODE_ID, "here", 9092, "a")
    assert response.cluster_authorized_operations == NOT_ASKED_FOR
    assert response.endpoint_type == 1


async def test_who_asks_is_told_what_it_may_do(broker: Context) -> None:
    response = await answered(broker, operations=True)
    assert response.cluster_authorized_operations == 8096


async def test_fenced_brokers_are_told_to_who_asks() -> None:
    async with open_context(others={2: FENCED}) as broker:
        assert [each.broker_id for each in (await answered(broker)).brokers] == [1]
        brokers = (await answered(broker, fenced=True)).brokers
        assert [(each.broker_id, each.is_fenced) for each in brokers] == [(1, False), (2, True)]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_this_is_not_where_controllers_are_described(
    broker: Context, version: int, endpoint_type: int, code: ErrorCode
) -> None:
    response = await answered(broker, version, endpoint_type=endpoint_type)
    assert response.error_code == code
    assert response.error_message
    # Kafka does not say its own type, but the default.
    assert (response.endpoint_type, response.cluster_id, response.brokers) == (1, "", [])
    assert response.controller_id == -1
