"""`pyk queue redrive`: every dead letter goes back once, whatever happens on the way."""

from __future__ import annotations

import json
import random
import subprocess
import uuid
from collections import Counter
from typing import Any

import pytest

from pyk.client.cluster import Cluster
from pyk.client.group_offsets import commit_offsets, fetch_offsets
from pyk.client.offsets import LATEST, find_offsets
from pyk.client.producing import Producer, new_identity, send_batch
from pyk.client.redrive_progress import Progress, Sending
from pyk.types import TopicPartition
from pyk.wire.records import Headers, Record, build_batch
from tests.cli.commands import COMMAND, Done, environment, pyk
from tests.clients.sharing import ACCEPT, REJECT, share_member

LETTERS = 600
PLANNED = "pyk: nothing has been changed; add --execute to do it\n"


@pytest.fixture
def topic(broker: str) -> str:
    """One of two partitions."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    pyk("topic", "create", name, "-p", "2", bootstrap=broker)
    return name


@pytest.fixture
def dead(broker: str, topic: str) -> str:
    name = f"{topic}-dead"
    pyk("topic", "create", name, bootstrap=broker)
    return name


def context(topic: str, partition: int, group: str) -> Headers:
    return (
        ("__dlq.errors.topic", topic.encode()),
        ("__dlq.errors.partition", b"%d" % partition),
        ("__dlq.errors.offset", b"7"),
        ("__dlq.errors.group", group.encode()),
        ("__dlq.errors.delivery.count", b"5"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )


def bury(broker: str, dead: str, topic: str, *letters: tuple[str, int, str]) -> None:
    """Dead letters: whose, of which partition, and what they say."""
    with Cluster.connect(broker) as cluster, Producer(cluster) as producer:
        for group, partition, text in letters:
            headers = (("own", b"header"), *context(topic, partition, group))
            producer.send(dead, text.encode(), key=b"key", headers=headers, partition=0)


def redrive(broker: str, dead: str, *options: str) -> Done:
    return pyk("queue", "redrive", dead, *options, bootstrap=broker)


def rows(broker: str, dead: str, *options: str) -> list[dict[str, Any]]:
    found = json.loads(redrive(broker, dead, *options, "--format", "json").out)
    assert isinstance(found, list)
    return found


def values(broker: str, topic: str) -> list[str]:
    """By partition, in the order of their offsets."""
    return [
        f"{number} {text}"
        for number in (0, 1)
        for text in pyk(
            "consume", topic, "-p", str(number), "-e", "-f", r"%v\n", bootstrap=broker
        ).lines
    ]


def test_letters_go_back_with_what_is_their_own(broker: str, topic: str, dead: str) -> None:
    bury(broker, dead, topic, ("shop", 0, "a"), ("shop", 1, "b"), ("shop", 1, "c"))
    planned = redrive(broker, dead)
    assert (planned.code, planned.err) == (0, PLANNED)
    assert [line.split() for line in planned.lines] == [
        ["GROUP", "TOPIC", "PARTITION", "DEAD-PARTITION", "START", "END", "RECORDS", "STATUS"],
        ["shop", topic, "0", "0", "0", "1", "1", "PLANNED"],
        ["shop", topic, "1", "0", "1", "3", "2", "PLANNED"],
    ]
    assert values(broker, topic) == []
    done = redrive(broker, dead, "--execute")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[-1] for line in done.lines[1:]] == ["OK", "OK"]
    shown = pyk("consume", topic, "-p", "1", "-e", "-f", r"%k %v %h\n", bootstrap=broker)
    assert shown.lines == ["key b own=header", "key c own=header"]
    assert values(broker, topic) == ["0 a", "1 b", "1 c"]


def test_what_a_member_rejects_is_delivered_again_once_it_is_sent_back(
    broker: str, topic: str, dead: str
) -> None:
    pyk("produce", topic, "-p", "1", "-k", "k", bootstrap=broker, stdin=b"a\nb\n")
    begins = ("share.auto.offset.reset=earliest", f"errors.deadletterqueue.topic.name={dead}")
    pyk("config", "set", f"group/{topic}", *begins, bootstrap=broker)
    with share_member(broker, topic, topic) as member:
        assert member.fetch() == [(1, 0, 1)]
        member.say(REJECT, 1, 0, 0)
        member.say(ACCEPT, 1, 1, 1)
        (row,) = rows(broker, dead, "-g", topic, "--execute")
        assert (row["group"], row["topic"], row["partition"]) == (topic, topic, 1)
        assert member.fetch() == [(1, 2, 2)]
    shown = pyk("consume", topic, "-o", "2", "-p", "1", "-e", "-f", r"%k %v %h", bootstrap=broker)
    assert shown.out == "k a "


def test_what_was_sent_back_is_not_sent_again(broker: str, topic: str, dead: str) -> None:
    bury(broker, dead, topic, ("shop", 0, "a"))
    redrive(broker, dead, "--execute")
    again = redrive(broker, dead, "--execute")
    assert (again.code, again.lines[1:]) == (0, [])
    assert again.err == f"pyk: there is nothing in {dead} that was not sent back already\n"
    bury(broker, dead, topic, ("shop", 0, "b"))
    assert [row["records"] for row in rows(broker, dead, "--execute")] == [1]
    assert values(broker, topic) == ["0 a", "0 b"]


def test_letters_are_chosen_by_group_number_and_range_in_any_order(
    broker: str, topic: str, dead: str
) -> None:
    letters = [("shop" if n % 2 else "bank", 0, str(n)) for n in range(10)]
    bury(broker, dead, topic, *letters)
    for options, expected in [
        (("-o", "6:8"), "67"),
        (("-g", "shop", "-n", "2"), "13"),
        (("-o", "5:9"), "58"),
        (("-n", "1"), "0"),
        (("-g", "bank"), "24"),
        (("-t", "elsewhere"), ""),
        (("-t", topic), "9"),
        ((), ""),
    ]:
        before = len(values(broker, topic))
        assert redrive(broker, dead, *options, "--execute").code == 0
        assert "".join(text[-1] for text in values(broker, topic)[before:]) in (
            expected,
            "".join(sorted(expected, key=lambda each: (int(each) % 2, each))),
        ), options
    assert Counter(values(broker, topic)) == Counter(f"0 {n}" for n in range(10))


def test_records_that_are_no_dead_letters_are_left_alone(
    broker: str, topic: str, dead: str
) -> None:
    pyk("produce", dead, "-H", "x=y", bootstrap=broker, stdin=b"plain\n")
    wrong = "__dlq.errors.partition=much"
    named = ("-H", "__dlq.errors.group=g", "-H", f"__dlq.errors.topic={topic}", "-H", wrong)
    pyk("produce", dead, *named, bootstrap=broker, stdin=b"odd\n")
    bury(broker, dead, topic, ("shop", 0, "a"))
    done = redrive(broker, dead, "--execute")
    assert (done.code, done.err) == (0, "pyk: 2 records are no dead letter, and left alone\n")
    assert values(broker, topic) == ["0 a"]


def test_what_has_nowhere_to_go_stays_and_is_told(broker: str, topic: str, dead: str) -> None:
    bury(broker, dead, topic, ("shop", 9, "nowhere"), ("shop", 0, "after"), ("bank", 0, "other"))
    done = redrive(broker, dead, "--execute", "--format", "json")
    assert done.code == 1
    told = {(row["group"], row["partition"]): row["status"] for row in json.loads(done.out)}
    assert told == {("bank", 0): "OK", ("shop", 9): "UNKNOWN_TOPIC_OR_PARTITION"}
    assert done.err == "pyk: 2 letters are not known to be sent: see the errors, and run it again\n"
    assert values(broker, topic) == ["0 other"]
    missing = redrive(broker, "nowhere")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err == "pyk: there is no topic nowhere (UNKNOWN_TOPIC_OR_PARTITION)\n"


def test_letters_that_are_too_large_together_go_one_by_one(
    broker: str, topic: str, dead: str
) -> None:
    limit = ("-c", "max.message.bytes=1000")
    pyk("topic", "alter", topic, *limit, bootstrap=broker)
    bury(broker, dead, topic, *(("shop", 0, f"{n}{'.' * 400}") for n in range(7)))
    assert redrive(broker, dead, "--execute").code == 0
    assert [text[2] for text in values(broker, topic)] == list("0123456")


@pytest.mark.parametrize("was_sent", [True, False])
def test_a_run_that_was_interrupted_is_finished_by_the_next(
    broker: str, topic: str, dead: str, was_sent: bool
) -> None:
    bury(broker, dead, topic, *(("shop", 0, text) for text in "abc"))
    pyk("produce", topic, "-p", "0", bootstrap=broker, stdin=b"before\n")
    name, at = f"pyk.redrive/shop/{topic}", TopicPartition(dead, 0)
    with Cluster.connect(broker) as cluster:
        identity = new_identity(cluster)
        about = Progress(0).about(Sending(0, 2, 0, 1, *identity, 0))
        commit_offsets(cluster, name, {at: 0}, metadata=about.metadata)
        if was_sent:
            records = [Record(n, 0, b"key", text, ()) for n, text in enumerate((b"a", b"b"))]
            producer_id, epoch = identity
            batch = build_batch(
                records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0
            )
            send_batch(cluster, TopicPartition(topic, 0), batch)
    pyk("produce", topic, "-p", "0", bootstrap=broker, stdin=b"after\n")
    (planned,) = rows(broker, dead)
    assert planned["records"] == (1 if was_sent else 3)
    (row,) = rows(broker, dead, "--execute")
    assert (row["status"], row["records"]) == ("OK", 1 if was_sent else 3)
    told = "2 more were sent by a run that was interrupted" if was_sent else None
    assert row["message"] == told
    assert Counter(values(broker, topic)) == Counter(["0 before", "0 a", "0 b", "0 c", "0 after"])
    with Cluster.connect(broker) as cluster:
        kept = fetch_offsets(cluster, [name])[name]
    assert isinstance(kept, dict)
    assert (kept[at].offset, kept[at].metadata) == (3, "")


def test_nobody_guesses_what_was_sent_when_the_topic_was_trimmed(
    broker: str, topic: str, dead: str
) -> None:
    bury(broker, dead, topic, ("shop", 0, "a"))
    pyk("produce", topic, "-p", "0", bootstrap=broker, stdin=b"x\ny\n")
    with Cluster.connect(broker) as cluster:
        about = Progress(0).about(Sending(0, 1, 0, 1, *new_identity(cluster), 0))
        name = f"pyk.redrive/shop/{topic}"
        commit_offsets(cluster, name, {TopicPartition(dead, 0): 0}, metadata=about.metadata)
    pyk("topic", "trim", topic, "-p", "0", "-o", "2", bootstrap=broker)
    done = redrive(broker, dead, "--execute", "--format", "json")
    (row,) = json.loads(done.out)
    assert (done.code, row["status"]) == (1, "OFFSET_OUT_OF_RANGE")
    assert f"pyk group delete {name}" in row["message"]
    assert pyk("group", "delete", name, bootstrap=broker).code == 0
    assert redrive(broker, dead, "--execute").code == 0
    assert values(broker, topic) == ["0 a"]


def test_letters_that_are_gone_hold_nothing_up(broker: str, topic: str, dead: str) -> None:
    bury(broker, dead, topic, *(("shop", 0, text) for text in "abc"))
    with Cluster.connect(broker) as cluster:
        # Not the first that the producer sends: a broker that knows nothing of those before.
        about = Progress(0).about(Sending(0, 2, 0, 0, *new_identity(cluster), 70))
        name = f"pyk.redrive/shop/{topic}"
        commit_offsets(cluster, name, {TopicPartition(dead, 0): 0}, metadata=about.metadata)
    pyk("topic", "trim", dead, "-o", "1", bootstrap=broker)
    (row,) = rows(broker, dead, "--execute")
    assert (row["status"], row["records"]) == ("OK", 2)
    assert values(broker, topic) == ["0 b", "0 c"]


def test_a_redrive_that_is_killed_again_and_again_sends_each_letter_once(
    broker: str, topic: str, dead: str
) -> None:
    """Neighbours go to different partitions, so that each is sent by itself."""
    chance = random.Random(7)
    bury(broker, dead, topic, *(("shop", n % 2, str(n)) for n in range(LETTERS)))
    for _ in range(4):
        killed_while_it_sends(broker, topic, dead, chance.randint(1, 50))
    assert 4 <= len(values(broker, topic)) < LETTERS
    assert redrive(broker, dead, "--execute").code == 0
    expected = [f"{n % 2} {n}" for n in range(LETTERS)]
    assert values(broker, topic) == sorted(expected, key=lambda each: each[0])


def killed_while_it_sends(broker: str, topic: str, dead: str, count: int) -> None:
    """As soon as so many more letters are there."""
    partitions = dict.fromkeys((TopicPartition(topic, 0), TopicPartition(topic, 1)), LATEST)
    with (
        Cluster.connect(broker) as cluster,
        subprocess.Popen(
            [*COMMAND, "queue", "redrive", dead, "--execute"],
            env=environment(broker),
            stdout=subprocess.DEVNULL,
        ) as process,
    ):
        enough = sum(find_offsets(cluster, partitions).values()) + count
        while sum(find_offsets(cluster, partitions).values()) < enough:
            assert process.poll() is None
        process.kill()
