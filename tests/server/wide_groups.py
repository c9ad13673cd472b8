"""Requests about many groups, many members, or the offsets of many partitions, and what others wait
meanwhile, with a scrape of the figures of all that. A part of `make hostile`.

It is the table of `tests.server.wide_requests` with other rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from urllib.request import urlopen

from pyk.wire.apis import ApiKey
from pyk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyk.wire.messages.delete_groups import DeleteGroupsRequest
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.describe_groups import DescribeGroupsRequest
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pyk.wire.messages.list_groups import ListGroupsRequest
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pyk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pyk.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.clients.queueing.group import GROUP_RESOURCE
from tests.clients.raw import RawClient
from tests.clients.sharing import ShareMember
from tests.server import wide_transactions
from tests.server.wide_requests import (
    Asked,
    Rows,
    create,
    create_partitions,
    create_topic,
    create_topics,
    delete_topic,
    delete_topics,
    make_logs,
    show,
)

AT_ONCE: Final = 100
"""How many requests are sent before the first answer is read."""
MEMBERS_MAX: Final = 1_000
"""Each has a connection of its own."""
REPEATED_MAX: Final = 100
"""How often a group is named in one request, each time for all of its offsets."""
EXPENSIVE: Final = "(.?){1000}" * 5 + "9"
"""A tenth of the topics matches."""
METRICS_SECONDS: Final = 60
ASSIGNED_SECONDS: Final = 120
"""An expensive expression takes a thread half a minute for 10,000 topics."""


def find_coordinators(asked: Asked) -> None:
    """The first time, its topic is made."""
    request = FindCoordinatorRequest(coordinator_keys=asked.named("group"))
    answer = asked.ask(ApiKey.FIND_COORDINATOR, 4, request)
    assert {each.error_code for each in answer.coordinators} == {0}


def committed(group: str, topic: str, numbers: Sequence[int]) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=0, committed_metadata=""
        )
        for number in numbers
    ]
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    )


def commit_offsets(asked: Asked) -> None:
    request = committed(_group(asked), asked.topic, asked.numbers)
    answer = asked.ask(ApiKey.OFFSET_COMMIT, 9, request)
    assert {each.error_code for each in answer.topics[0].partitions} == {0}


def commit_for_groups(asked: Asked) -> None:
    commit_for(asked, asked.topic)


def commit_for(asked: Asked, topic: str) -> None:
    """For many groups, each with a request of its own."""
    names = asked.named("group")
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        for name in some:
            asked.client.send(ApiKey.OFFSET_COMMIT, 9, committed(name, topic, [0]))
        for _ in some:
            answer = asked.client.receive(ApiKey.OFFSET_COMMIT, 9)
            assert answer.topics[0].partitions[0].error_code == 0


def fetch_offsets(asked: Asked) -> None:
    topic = OffsetFetchRequestTopics(name=asked.topic, partition_indexes=list(asked.numbers))
    fetch_offsets_of(asked, [OffsetFetchRequestGroup(group_id=_group(asked), topics=[topic])])


def fetch_all_offsets(asked: Asked) -> None:
    """Of one group, named again and again."""
    group = OffsetFetchRequestGroup(group_id=_group(asked), topics=None)
    fetch_offsets_of(asked, [group] * min(asked.size, REPEATED_MAX))


def fetch_offsets_of_groups(asked: Asked) -> None:
    names = asked.named("group")
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    fetch_offsets_of(asked, groups)


def fetch_offsets_of(asked: Asked, groups: list[OffsetFetchRequestGroup]) -> None:
    answer = asked.ask(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups))
    assert len(answer.groups) == len(groups)
    assert {each.error_code for each in answer.groups} == {0}
    assert all(each.topics for each in answer.groups)


def list_groups(asked: Asked) -> None:
    answer = asked.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
    assert len(answer.groups) > asked.size


def describe_groups(asked: Asked) -> None:
    request = DescribeGroupsRequest(groups=asked.named("group"))
    answer = asked.ask(ApiKey.DESCRIBE_GROUPS, 5, request)
    assert {each.error_code for each in answer.groups} == {0}


def scrape(asked: Asked) -> None:
    with urlopen(asked.siege.metrics, timeout=METRICS_SECONDS) as answer:
        assert _group(asked).encode() in answer.read()


def delete_offsets(asked: Asked) -> None:
    partitions = [OffsetDeleteRequestPartition(partition_index=number) for number in asked.numbers]
    topic = OffsetDeleteRequestTopic(name=asked.topic, partitions=partitions)
    request = OffsetDeleteRequest(group_id=_group(asked), topics=[topic])
    answer = asked.ask(ApiKey.OFFSET_DELETE, 0, request)
    assert answer.error_code == 0
    assert {each.error_code for each in answer.topics[0].partitions} == {0}


def delete_topic_with_offsets(asked: Asked) -> None:
    name = f"read-{asked.size}"
    create(asked, [name], 1)
    commit_for(asked, name)
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000)
    asked.ask(ApiKey.DELETE_TOPICS, 5, request)
    time.sleep(0.5)  # The offsets go afterwards.


def delete_groups(asked: Asked) -> None:
    request = DeleteGroupsRequest(groups_names=asked.named("group"))
    answer = asked.ask(ApiKey.DELETE_GROUPS, 2, request)
    assert {each.error_code for each in answer.results} == {0}


def heartbeat(asked: Asked, names: list[str] | None, expression: str | None) -> None:
    """Join, be assigned partitions, and leave."""

    def ask(epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"consumers-{asked.size}",
            member_id=f"member-{asked.size}",
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=names,
            subscribed_topic_regex=expression,
            topic_partitions=[] if epoch == 0 else None,
        )
        answer = asked.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        assert answer.error_code == 0, answer.error_message
        return answer

    deadline = time.monotonic() + ASSIGNED_SECONDS
    answer = ask(0)
    while not (answer.assignment and answer.assignment.topic_partitions):
        assert time.monotonic() < deadline, "no partition has been assigned"
        time.sleep(0.01)
        answer = ask(answer.member_epoch)
    ask(-1)


def heartbeat_of_names(asked: Asked) -> None:
    heartbeat(asked, asked.named("topic"), None)


def heartbeat_of_expression(asked: Asked) -> None:
    heartbeat(asked, [], EXPENSIVE)


def join_group(asked: Asked) -> None:
    """All of them, get what the leader has assigned, and leave together."""
    with members(asked) as joining:
        ids = [_join(client, asked, "").member_id for client in joining]
        for client, member_id in zip(joining, ids, strict=True):
            client.send(ApiKey.JOIN_GROUP, 6, _joining(asked, member_id))
        joined = [client.receive(ApiKey.JOIN_GROUP, 6) for client in joining]
        assert {each.error_code for each in joined} == {0}
        assert max(len(each.members) for each in joined) == len(joining)
        assignments = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(100))
            for member_id in ids
        ]
        for client, each in zip(joining, joined, strict=True):
            synchronized = SyncGroupRequest(
                group_id=_classic(asked),
                generation_id=each.generation_id,
                member_id=each.member_id,
                assignments=assignments if each.member_id == each.leader else [],
            )
            client.send(ApiKey.SYNC_GROUP, 4, synchronized)
        synced = [client.receive(ApiKey.SYNC_GROUP, 4) for client in joining]
        assert {each.error_code for each in synced} == {0}
    leaving = [MemberIdentity(member_id=member_id) for member_id in ids]
    request = LeaveGroupRequest(group_id=_classic(asked), members=leaving)
    assert asked.ask(ApiKey.LEAVE_GROUP, 4, request).error_code == 0


@contextmanager
def members(asked: Asked) -> Iterator[list[RawClient]]:
    count = min(asked.size, MEMBERS_MAX)
    with ExitStack() as stack:
        yield [stack.enter_context(RawClient(asked.siege.address)) for _ in range(count)]


def _join(client: RawClient, asked: Asked, member_id: str) -> Any:
    return client.ask(ApiKey.JOIN_GROUP, 6, _joining(asked, member_id))


def _joining(asked: Asked, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=_classic(asked),
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(100))],
    )


def share(asked: Asked) -> None:
    """Join, and be assigned all partitions."""
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=f"share-{asked.size}", configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = asked.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert answer.responses[0].error_code == 0
    member = ShareMember(asked.client, f"share-{asked.size}", asked.topic)
    assert len(next(iter(member.assigned.values()))) == asked.size
    member.leave()


def share_fetch(asked: Asked) -> None:
    member = ShareMember(asked.client, f"share-{asked.size}", asked.topic)
    assert member.fetch(max_records=asked.size)
    member.leave()


def _group(asked: Asked) -> str:
    return f"reader-{asked.size}"


def _classic(asked: Asked) -> str:
    return f"classic-{asked.size}"


ROWS: Final[Rows] = (
    ("CreateTopics: one with many partitions", create_topic),
    ("CreatePartitions", create_partitions),
    ("Produce: logs are made", make_logs),
    ("FindCoordinator", find_coordinators),
    ("FindCoordinator, once more", find_coordinators),
    ("OffsetCommit", commit_offsets),
    ("OffsetCommit of many groups", commit_for_groups),
    ("OffsetFetch", fetch_offsets),
    ("OffsetFetch of all, up to 100 times", fetch_all_offsets),
    ("OffsetFetch of many groups", fetch_offsets_of_groups),
    ("ListGroups", list_groups),
    ("DescribeGroups", describe_groups),
    ("/metrics", scrape),
    ("OffsetDelete", delete_offsets),
    ("DeleteTopics: one that many have read", delete_topic_with_offsets),
    ("DeleteGroups", delete_groups),
    ("JoinGroup, SyncGroup, up to 1,000", join_group),
    ("ShareGroupHeartbeat", share),
    ("ShareFetch", share_fetch),
    *wide_transactions.ROWS,
    ("DeleteTopics: one with many partitions", delete_topic),
    ("CreateTopics: many", create_topics),
    ("ConsumerGroupHeartbeat: names", heartbeat_of_names),
    ("ConsumerGroupHeartbeat: expression", heartbeat_of_expression),
    ("DeleteTopics: many", delete_topics),
)


if __name__ == "__main__":
    show(ROWS)
