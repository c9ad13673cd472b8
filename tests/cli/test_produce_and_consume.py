"""`pyk produce` and `pyk consume`."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, environment, pyk, pyk_on_terminal


def values(broker: str, topic: str, *options: str) -> list[str]:
    return pyk("consume", topic, "-e", "-f", r"%v\n", *options, bootstrap=broker).lines


def test_lines_become_records(broker: str) -> None:
    assert pyk("produce", "lines", bootstrap=broker, stdin=b"one\ntwo\n\nthree").code == 0
    assert values(broker, "lines") == ["one", "two", "", "three"]


def test_a_record_is_an_object_of_json_on_a_line(broker: str) -> None:
    options = ("-K", ":", "-H", "a=1", "-H", "none", "-z", "zstd", "-p", "0")
    pyk("produce", "objects", *options, bootstrap=broker, stdin=b"k:v\n\xff:\xfe\n")
    first, second = map(json.loads, pyk("consume", "objects", "-e", bootstrap=broker).lines)
    assert first.pop("timestamp") > 1_700_000_000_000
    assert first == {
        "topic": "objects",
        "partition": 0,
        "offset": 0,
        "timestamp_type": "CREATE_TIME",
        "key": "k",
        "value": "v",
        "headers": [{"key": "a", "value": "1"}, {"key": "none", "value": None}],
    }
    assert (second["key_base64"], second["value_base64"]) == ("/w==", "/g==")
    assert "value" not in second


def test_a_tombstone_is_an_empty_value_with_z(broker: str) -> None:
    pyk("produce", "tombs", "-k", "fixed", "-Z", bootstrap=broker, stdin=b"x\n\n")
    found = [json.loads(line) for line in pyk("consume", "tombs", "-e", bootstrap=broker).lines]
    assert [(each["key"], each["value"]) for each in found] == [("fixed", "x"), ("fixed", None)]


def test_what_one_template_prints_it_reads(broker: str) -> None:
    template = r"%T %K %V %h;%k%v\n"
    data = b"77 3 -1 a=b;k\ny\n78 -1 4 ;\x00\xff\n;\n"
    assert pyk("produce", "binary", "-f", template, bootstrap=broker, stdin=data).code == 0
    command = [*COMMAND, "consume", "binary", "-e", "-f", template]
    done = subprocess.run(command, capture_output=True, env=environment(broker), check=True)
    assert done.stdout == data


def test_files_are_read_one_after_the_other(broker: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"3\n")
    files = ("-l", str(tmp_path / "a"), "-l", str(tmp_path / "b"))
    pyk("produce", "files", *files, bootstrap=broker)
    assert values(broker, "files") == ["1", "2", "3"]


def test_the_end_of_a_file_ends_its_last_record(broker: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"key1:a\nkey2:b")
    (tmp_path / "b").write_bytes(b"key3:c\nkey4:d\n")
    files = ("-l", str(tmp_path / "a"), "-l", str(tmp_path / "b"))
    pyk("produce", "ends", "-K", ":", *files, bootstrap=broker)
    shown = pyk("consume", "ends", "-e", "-f", r"%k %v\n", bootstrap=broker)
    assert shown.lines == ["key1 a", "key2 b", "key3 c", "key4 d"]


def test_a_record_that_the_end_of_a_file_cuts_off_does_not_go_on_in_the_next(
    broker: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"key1:a\nkey2")
    (tmp_path / "b").write_bytes(b":b\n")
    files = ("-l", str(tmp_path / "a"), "-l", str(tmp_path / "b"))
    done = pyk("produce", "cut-off", "-K", ":", *files, bootstrap=broker)
    assert done.code == 1
    assert "record 2 is cut off by the end of the input. What came before it was sent." in done.err
    assert values(broker, "cut-off") == ["a"]


def test_where_records_went_is_printed_if_asked_for(broker: str) -> None:
    pyk("topic", "create", "acked", "-p", "2", bootstrap=broker)
    done = pyk(
        "produce", "acked", "-p", "1", "-o", r"%t %p %o %v\n", bootstrap=broker, stdin=b"a\nb\n"
    )
    assert done.lines == ["acked 1 0 a", "acked 1 1 b"]


def test_input_that_is_not_as_it_should_be_is_told_by_its_number(broker: str) -> None:
    done = pyk("produce", "bad", "-K", ":", bootstrap=broker, stdin=b"a:1\nb\nc:3\n")
    assert done.code == 1
    assert done.err == (
        "pyk: record 2 of the input: there is no b':' in b'b'. What came before it was sent.\n"
    )
    assert values(broker, "bad") == ["1"]


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        ("start", range(20)),
        ("15", range(15, 20)),
        ("+18", range(18, 20)),
        ("-3", range(17, 20)),
        ("5:8", range(5, 8)),
        (":4", range(4)),
        ("-5:-2", range(15, 18)),
        ("@1000005", range(5, 20)),
        ("@1000005:1000009", range(5, 9)),
        ("@1000005:2s", range(5, 7)),
        ("end", range(0)),
    ],
)
def test_offsets_are_as_rpk_has_them(broker: str, offset: str, found: range) -> None:
    if offset == "start":
        timed = b"".join(b"%d %d\n" % (1_000_000_000 + 1000 * n, n) for n in range(20))
        pyk("produce", "offsets", "-f", r"%T %v\n", bootstrap=broker, stdin=timed)
    assert values(broker, "offsets", "-o", offset) == [str(number) for number in found]


def test_a_count_and_partitions_limit_what_is_read(broker: str) -> None:
    pyk("topic", "create", "limits", "-p", "3", bootstrap=broker)
    for number in range(3):
        pyk("produce", "limits", "-p", str(number), bootstrap=broker, stdin=b"a\nb\nc\n")
    done = pyk("consume", "limits", "-p", "2", "-n", "2", "-f", r"%p %o\n", bootstrap=broker)
    assert done.lines == ["2 0", "2 1"]
    both = pyk("consume", "limits", "-p", "0", "-p", "2", "-e", "-f", r"%p\n", bootstrap=broker)
    assert sorted(both.lines) == ["0"] * 3 + ["2"] * 3


def test_records_that_come_later_are_printed_as_they_come_until_interrupted(broker: str) -> None:
    pyk("topic", "create", "live", bootstrap=broker)
    command = [*COMMAND, "consume", "live", "-o", "start", "-f", r"%v\n"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(broker)) as process:
        assert process.stdout is not None
        for value in (b"first\n", b"second\n"):
            pyk("produce", "live", bootstrap=broker, stdin=value)
            assert process.stdout.readline() == value
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.wait(30) == 130


def test_a_slow_input_is_sent_as_it_comes(broker: str) -> None:
    command = [*COMMAND, "produce", "slow", "-o", r"%v\n"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(broker), **pipes) as process:  # type: ignore[call-overload]
        for value in (b"one\n", b"two\n"):
            process.stdin.write(value)
            process.stdin.flush()
            assert process.stdout.readline() == value
        process.stdin.close()
        assert process.wait(30) == 0


def test_output_that_is_cut_off_ends_silently(broker: str) -> None:
    lines = b"".join(b"%d\n" % number for number in range(50_000))
    pyk("produce", "cut", bootstrap=broker, stdin=lines)
    script = f"{' '.join(COMMAND)} consume cut -e | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment(broker), check=True
    )
    record, code = done.stdout.splitlines()
    assert json.loads(record)["offset"] == 0
    assert code == "141"
    assert done.stderr == ""


def test_on_a_terminal_records_are_lines_that_cannot_move_the_cursor(broker: str) -> None:
    pyk("produce", "shown", "-K", ":", bootstrap=broker, stdin=b"k:a\x1b[2Jb\n")
    shown = pyk_on_terminal("consume", "shown", "-e", bootstrap=broker)
    place, offset, moment, key, value = shown.out.split()
    assert (place, offset, key, value) == ("shown-0", "0", "k", r"a\x1b[2Jb")
    assert moment.endswith("Z")


def test_on_a_terminal_a_line_is_sent_when_it_is_typed(broker: str) -> None:
    shown = pyk_on_terminal("produce", "typed", bootstrap=broker, typed="hello\n\x04")
    assert shown.code == 0
    assert values(broker, "typed") == ["hello"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("consume",), "Missing argument 'TOPICS...'"),
        (("consume", "t", "-o", "middle"), "'middle' is not an offset"),
        (("consume", "t", "-f", "%q"), "there is no %q here"),
        (("consume", "t", "-f", "%v", "--format", "json"), "exclude each other"),
        (("produce", "t", "-f", "%v\\n", "-K", ":"), "exclude each other"),
        (("produce", "t", "-D", ""), "cannot be empty"),
        (("produce", "t", "-f", "%k%v\\n"), "does not say where %k ends"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = pyk(*arguments, bootstrap="localhost:1")
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_what_is_not_there_is_one_line(broker: str) -> None:
    done = pyk("consume", "nobody", "-e", bootstrap=broker)
    assert (done.code, done.err) == (
        1,
        "pyk: there is no topic nobody (UNKNOWN_TOPIC_OR_PARTITION)\n",
    )
    pyk("topic", "create", "small", bootstrap=broker)
    done = pyk("consume", "small", "-p", "5", bootstrap=broker)
    assert done.err == "pyk: small has no partition 5; it has 1 (UNKNOWN_TOPIC_OR_PARTITION)\n"
    done = pyk("consume", "small", "-o", "9", "-n", "1", bootstrap=broker)
    assert "offset 9 of small-0 is out of range: it has 0 up to 0" in done.err
    assert done.code == 1
    done = pyk("produce", "nobody", "--no-create", bootstrap=broker, stdin=b"x\n")
    assert done.code == 1
