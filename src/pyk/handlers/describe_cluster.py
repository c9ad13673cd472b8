"""DescribeCluster, v0-2: cluster id, controller and brokers."""

from __future__ import annotations

from typing import Final

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.operations import ALL_OF_CLUSTER, NOT_ASKED_FOR
from pyk.metadata.image import Broker
from pyk.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2
"""The types of endpoints: who is to be described, and hence who may be asked (KIP-919)."""


def handle(request: DescribeClusterRequest, call: Call, broker: Context) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        message = "This is an endpoint of brokers, and not of controllers."
        raise KafkaError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, message)
    if request.endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, message)
    operations = ALL_OF_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED_FOR
    return DescribeClusterResponse(
        cluster_id=broker.image.cluster_id or "",
        controller_id=broker.node_id,
        brokers=[
            _described(each, call, broker)
            for each in broker.image.brokers.values()
            if request.include_fenced_brokers or not each.fenced
        ],
        cluster_authorized_operations=operations,
    )


def refuse(request: DescribeClusterRequest, refusal: KafkaError) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=refusal.code, error_message=refusal.message, cluster_id="", brokers=[]
    )


def _described(each: Broker, call: Call, broker: Context) -> DescribeClusterBroker:
    host, port = broker.address_of(each, call.peer)
    return DescribeClusterBroker(
        broker_id=each.broker_id, host=host, port=port, rack=each.rack, is_fenced=each.fenced
    )
