"""Commands that are interrupted, or of whose work a part is refused: they say what is done and what
is not, end with an error, and can be run again."""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyk.testing import Record, ThreadBroker, serve_in_thread
from tests.cli.commands import COMMAND, Done, environment, pyk

REFUSED = "TOPIC_AUTHORIZATION_FAILED"


@pytest.fixture(scope="module")
def serving() -> Iterator[ThreadBroker]:
    with serve_in_thread() as broker:
        yield broker


@pytest.fixture
def broker(serving: ThreadBroker) -> Iterator[ThreadBroker]:
    yield serving
    serving.reset()


@pytest.fixture
def topic(broker: ThreadBroker) -> str:
    """One of two partitions."""
    return broker.create_topic(f"topic-{uuid.uuid4().hex[:8]}", 2)


def run(broker: ThreadBroker, *arguments: str, stdin: bytes = b"") -> Done:
    return pyk(*arguments, bootstrap=broker.bootstrap_servers, stdin=stdin)


def rows(broker: ThreadBroker, *arguments: str) -> tuple[list[dict[str, Any]], int]:
    done = run(broker, *arguments, "--format", "json")
    return json.loads(done.out), done.code


def started(broker: ThreadBroker, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env=environment(broker.bootstrap_servers),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def texts(broker: ThreadBroker, topic: str) -> list[str]:
    return [(each.value or b"").decode() for each in broker.records(topic)]


def test_produce_tells_what_is_acknowledged_when_a_partition_refuses(
    broker: ThreadBroker, topic: str
) -> None:
    with broker.faults.on("Produce", topic=topic, partition=0).refuse(REFUSED):
        options = ("-f", r"%p %v\n", "-o", r"%p %v\n")
        done = run(broker, "produce", topic, *options, stdin=b"0 a\n1 b\n0 c\n1 d\n")
    assert done.code == 1
    assert done.lines == ["1 b", "1 d"]
    said, refused = done.err.splitlines()
    assert said == "pyk: no record is acknowledged; some of the next 4 may be there"
    assert refused.startswith(f"pyk: {topic}-0:")
    assert refused.endswith(f"({REFUSED})")
    assert texts(broker, topic) == ["b", "d"]


def test_produce_tells_how_far_it_was_when_it_is_interrupted(
    broker: ThreadBroker, topic: str
) -> None:
    with started(broker, "produce", topic, "-o", r"%v\n") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        print("a\nb", file=process.stdin, flush=True)
        assert [process.stdout.readline() for _ in range(2)] == ["a\n", "b\n"]
        with broker.faults.on("Produce", topic=topic).hold() as held:
            print("c", file=process.stdin, flush=True)
            held.wait()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        assert process.stdout.read() == ""
        assert process.stderr.read().rstrip() == (
            "pyk: the records up to number 2 are acknowledged; some of the next 1 may be there"
        )


def test_produce_tells_how_far_it_was_when_a_file_cannot_be_read(
    broker: ThreadBroker, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    # There is nothing at its start that could be read.
    files = ("-l", str(tmp_path / "a"), "-l", "/proc/self/mem")
    done = run(broker, "produce", topic, *files)
    assert (done.code, done.err.splitlines()) == (
        1,
        [
            "pyk: no record is acknowledged; some of the next 2 may be there",
            "pyk: /proc/self/mem: Input/output error",
        ],
    )


def test_redrive_tells_what_was_sent_when_it_is_interrupted(
    broker: ThreadBroker, topic: str
) -> None:
    dead = bury(broker, topic, 0, 0, 1, 0)
    command = ("queue", "redrive", dead, "--execute", "--format", "json")
    with (
        broker.faults.on("Produce", topic=topic, partition=1).hold() as held,
        started(broker, *command) as process,
    ):
        held.wait()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip() == "pyk: it is not finished; what is sent already is not sent again"
    told = [(row["partition"], row["records"], row["status"]) for row in json.loads(out)]
    assert told == [(0, 2, "OK")]
    again, code = rows(broker, *command[:-2])
    assert code == 0
    assert [(row["partition"], row["records"]) for row in again] == [(0, 1), (1, 0)]
    assert again[1]["message"] == "1 more were sent by a run that was interrupted"
    assert Counter(texts(broker, topic)) == Counter(["0", "1", "2", "3"])


def test_redrive_tells_what_was_sent_when_nobody_answers_any_more(
    broker: ThreadBroker, topic: str
) -> None:
    dead = bury(broker, topic, 0, 0, 1, 0)
    command = ("queue", "redrive", dead, "--execute", "-X", "default.api.timeout.ms=1")
    with broker.faults.on("Produce", topic=topic, partition=1).cut_before():
        told, code = rows(broker, *command)
    assert code == 1
    assert [(row["partition"], row["records"], row["status"]) for row in told] == [
        (0, 2, "OK"),
        (1, 0, "NETWORK_EXCEPTION"),
    ]
    assert rows(broker, *command)[1] == 0
    assert Counter(texts(broker, topic)) == Counter(["0", "1", "2", "3"])


@pytest.mark.parametrize("is_done", [True, False])
def test_a_seek_of_which_the_answer_is_lost_is_not_told_as_done(
    broker: ThreadBroker, topic: str, is_done: bool
) -> None:
    seek = ("group", "seek", topic, "--to", "0", "-t", topic, "--execute")
    # The group is there, and its coordinator is ready.
    assert run(broker, *seek).code == 0
    fault = broker.faults.on("OffsetCommit")
    with fault.cut_after() if is_done else fault.cut_before():
        done = run(broker, *seek, "-X", "default.api.timeout.ms=1")
    assert (done.code, done.out) == (3, "")
    assert f"group {topic}: the group's coordinator is not reachable" in done.err
    assert "what was asked for may have been done" in done.err
    assert run(broker, *seek).code == 0


def test_topics_are_told_one_by_one(broker: ThreadBroker, topic: str) -> None:
    more = f"{topic}-more"
    made, code = rows(broker, "topic", "create", topic, more, "a b")
    assert (statuses(made), code) == (["TOPIC_ALREADY_EXISTS", "OK", "INVALID_TOPIC_EXCEPTION"], 1)
    gone, code = rows(broker, "topic", "delete", "nobody", more, topic, "--yes")
    assert (statuses(gone), code) == (["UNKNOWN_TOPIC_OR_PARTITION", "OK", "OK"], 1)


def test_partitions_are_trimmed_one_by_one(broker: ThreadBroker, topic: str) -> None:
    for number in (0, 1):
        broker.produce(topic, b"a", b"b", partition=number)
    with broker.faults.on("DeleteRecords", topic=topic, partition=0).refuse(REFUSED):
        told, code = rows(broker, "topic", "trim", topic, "-o", "1")
    assert [(row["log_start"], row["status"]) for row in told] == [(None, REFUSED), (1, "OK")]
    assert code == 1
    again, code = rows(broker, "topic", "trim", topic, "-o", "1")
    assert ([row["log_start"] for row in again], code) == ([1, 1], 0)


def test_nothing_of_several_settings_is_set_if_one_is_refused(
    broker: ThreadBroker, topic: str
) -> None:
    changes = ("retention.ms=5", "segment.ms=no number")
    done = run(broker, "config", "set", f"topic/{topic}", *changes)
    assert (done.code, done.out) == (1, "")
    assert run(broker, "config", "get", f"topic/{topic}").lines[1:] == []


def statuses(told: list[dict[str, Any]]) -> list[str]:
    return [row["status"] for row in told]


def bury(broker: ThreadBroker, topic: str, *partitions: int) -> str:
    """Dead letters of these partitions, which have numbers. Their topic."""
    letters = []
    for number, partition in enumerate(partitions):
        told = {"topic": topic, "partition": str(partition), "group": "shop"}
        headers = tuple((f"__dlq.errors.{name}", text.encode()) for name, text in told.items())
        letters.append(Record(key=b"k", value=b"%d" % number, headers=headers))
    dead = broker.create_topic(f"{topic}-dead")
    broker.produce(dead, *letters)
    return dead
