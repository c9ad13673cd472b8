"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what each version has, and what never reaches a
group."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import find_coordinator, heartbeat, join_group, leave_group, sync_group
from pyk.handlers.context import Context
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pyk.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from pyk.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.handlers.brokers import ask, open_context

E = ErrorCode
GROUP = "orders"


@pytest.fixture
async def broker() -> AsyncIterator[Context]:
    async with open_context({"group.initial.rebalance.delay.ms": "0"}) as broker:
        request = FindCoordinatorRequest(key=GROUP)
        await ask(find_coordinator.handle, find_coordinator.refuse, request, broker, 3)
        yield broker


async def join(
    broker: Context,
    version: int,
    member_id: str = "",
    *,
    group_id: str = GROUP,
    session_timeout_ms: int = 10_000,
) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return await ask(join_group.handle, join_group.refuse, request, broker, version)


async def sync(
    broker: Context,
    version: int,
    member_id: str,
    *,
    group_id: str = GROUP,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
) -> SyncGroupResponse:
    share = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=1,
        member_id=member_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[share],
    )
    return await ask(sync_group.handle, sync_group.refuse, request, broker, version)


async def beat(broker: Context, version: int, member_id: str, group_id: str = GROUP) -> int:
    request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id=member_id)
    response = await ask(heartbeat.handle, heartbeat.refuse, request, broker, version)
    return response.error_code


async def leave(
    broker: Context, version: int, *member_ids: str, group_id: str = GROUP
) -> LeaveGroupResponse:
    if version < 3:
        request = LeaveGroupRequest(group_id=group_id, member_id=member_ids[0])
    else:
        members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
        request = LeaveGroupRequest(group_id=group_id, members=members)
    return await ask(leave_group.handle, leave_group.refuse, request, broker, version)


@pytest.mark.parametrize("version", range(10))
async def test_a_member_comes_works_and_goes_in_every_version(
    broker: Context, version: int
) -> None:
    told = await join(broker, version)
    if version >= 4:
        assert told.error_code == E.MEMBER_ID_REQUIRED
        told = await join(broker, version, told.member_id)
    assert (told.error_code, told.generation_id, told.protocol_name) == (E.NONE, 1, "range")
    assert told.member_id.startswith("client-")
    assert told.leader == told.member_id == told.members[0].member_id
    synced = await sync(broker, min(version, 5), told.member_id)
    assert (synced.error_code, synced.assignment) == (E.NONE, b"all")
    assert await beat(broker, min(version, 4), told.member_id) == E.NONE
    left = await leave(broker, min(version, 5), told.member_id)
    assert left.error_code == E.NONE
    assert await beat(broker, min(version, 4), told.member_id) == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("version", "nothing"), [(0, ""), (6, ""), (7, None), (9, None)])
async def test_who_is_refused_is_told_of_no_protocol(
    broker: Context, version: int, nothing: str | None
) -> None:
    for told in (
        await join(broker, version, "ghost"),
        await join(broker, version, "ghost", session_timeout_ms=1),
    ):
        assert (told.protocol_name, told.generation_id, told.leader) == (nothing, -1, "")
        assert (told.member_id, told.members) == ("ghost", [])


@pytest.mark.parametrize(
    ("session_timeout_ms", "error"),
    [
        (5999, E.INVALID_SESSION_TIMEOUT),
        (6000, E.UNKNOWN_MEMBER_ID),
        (1_800_000, E.UNKNOWN_MEMBER_ID),
        (1_800_001, E.INVALID_SESSION_TIMEOUT),
    ],
)
async def test_a_session_has_bounds(
    broker: Context, session_timeout_ms: int, error: ErrorCode
) -> None:
    told = await join(broker, 9, "ghost", session_timeout_ms=session_timeout_ms)
    assert told.error_code == error


async def test_a_group_has_a_name(broker: Context) -> None:
    told = await join(broker, 9, "ghost", group_id="", session_timeout_ms=1)
    assert (told.error_code, told.member_id) == (E.INVALID_GROUP_ID, "ghost")
    assert (await sync(broker, 5, "ghost", group_id="")).error_code == E.INVALID_GROUP_ID
    assert await beat(broker, 4, "ghost", group_id="") == E.INVALID_GROUP_ID
    assert (await leave(broker, 5, "ghost", group_id="")).error_code == E.INVALID_GROUP_ID


@pytest.mark.parametrize("said", [(None, "range"), ("consumer", None), (None, None)])
async def test_since_version_5_who_syncs_names_its_protocol(
    broker: Context, said: tuple[str | None, str | None]
) -> None:
    refused = await sync(broker, 5, "ghost", protocol_type=said[0], protocol_name=said[1])
    assert refused.error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert (await sync(broker, 4, "ghost")).error_code == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3))
async def test_before_version_3_the_error_of_who_leaves_is_that_of_all(
    broker: Context, version: int
) -> None:
    left = await leave(broker, version, "ghost")
    assert (left.error_code, left.members) == (E.UNKNOWN_MEMBER_ID, [])


async def test_since_then_each_has_its_own(broker: Context) -> None:
    left = await leave(broker, 5, "ghost", "spectre")
    assert left.error_code == E.NONE
    assert [(m.member_id, m.error_code) for m in left.members] == [
        ("ghost", E.UNKNOWN_MEMBER_ID),
        ("spectre", E.UNKNOWN_MEMBER_ID),
    ]


def test_while_groups_are_loaded_heartbeats_are_fine() -> None:
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="ann")
    loading = KafkaError(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert heartbeat.refuse(request, loading).error_code == E.NONE
    moved = KafkaError(E.NOT_COORDINATOR)
    assert heartbeat.refuse(request, moved).error_code == E.NOT_COORDINATOR
