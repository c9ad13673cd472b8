"""The command as a whole: help, exit codes, completion, how quickly it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, environment, pyk, pyk_process
from tests.client.peers import peer, silent

COMMANDS = (
    "serve", "topic", "produce", "consume", "group", "queue", "transaction", "config", "cluster",
    "log", "doctor", "completion",
)  # fmt: skip


def test_help_names_every_command() -> None:
    done = pyk("--help")
    assert done.code == 0
    assert [line.split()[0] for line in done.lines if line.startswith("  ")][-12:] == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_begins_as_the_list_of_all_says(command: str) -> None:
    done = pyk(command, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: pyk {command}")


@pytest.mark.parametrize("command", ["consume", "produce"])
def test_the_help_of_templates_keeps_its_lines(command: str) -> None:
    lines = pyk(command, "--help").lines
    assert any(line.startswith("  Templates  %") for line in lines)
    assert any(line.endswith(r"\n \r \t \0 \\ \xNN") for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("topic", "nonsense"),
        ("topic", "create"),
        ("topic", "create", "x", "-p", "0"),
        ("topic", "create", "x", "-c", "novalue"),
        ("topic", "list", "--nonsense"),
        ("topic", "list", "-r", "("),
        ("topic", "list", "--format", "xml"),
        ("topic", "list", "-X", "nonsense"),
        ("topic", "list", "-X", "no.such.key=1"),
        ("topic", "list", "-X", "security.protocol=SASL_SSL"),
        ("topic", "list", "-b", ""),
        ("topic", "list", "--command-config", "/no/such/file"),
        ("completion", "tcsh"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: tuple[str, ...]) -> None:
    done = pyk(*arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert done.err.startswith("pyk")
    assert "--help." in done.err


def test_an_argument_that_is_not_utf8_is_one_line_and_2(broker: str) -> None:
    done = subprocess.run(
        [*map(os.fsencode, COMMAND), b"topic", b"create", b"\xff"],
        capture_output=True,
        text=True,
        env=environment(broker),
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "pyk: an argument is not UTF-8\n")


def test_an_unreachable_broker_is_one_line_and_3() -> None:
    for command in (("topic", "list"), ("consume", "t"), ("cluster", "describe"), ("produce", "t")):
        done = pyk(*command, "-b", "127.0.0.1:1")
        assert done.code == 3
        assert done.err == (
            "pyk: cannot reach 127.0.0.1:1: connection refused. "
            "Is a broker there? `pyk doctor -b 127.0.0.1:1` looks into it.\n"
        )


def test_a_broker_that_does_not_answer_is_given_up() -> None:
    with peer(silent) as address:
        limit = ("-X", "socket.connection.setup.timeout.ms=200")
        done = pyk("topic", "list", "-b", str(address), *limit)
    assert done.code == 3
    assert "no answer within 0.2 s" in done.err


def test_settings_come_from_a_file_and_x_is_stronger(broker: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={broker}\nsecurity.protocol=PLAINTEXT\n")
    assert pyk("topic", "list", "--command-config", str(file)).code == 0
    other = ("-X", "bootstrap.servers=127.0.0.1:1")
    assert pyk("topic", "list", "--command-config", str(file), *other).code == 3


def test_a_process_ends_with_the_same_codes(broker: str) -> None:
    assert pyk_process("topic", "list", bootstrap=broker).code == 0
    assert pyk_process("topic", "describe", "nobody", bootstrap=broker).code == 1
    assert pyk_process("topic", "list", "--nonsense").code == 2
    assert pyk_process("topic", "list", bootstrap="127.0.0.1:1").code == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str) -> None:
    done = pyk("completion", shell)
    assert done.code == 0
    assert "_PYK_COMPLETE" in done.out
    assert "pyk" in done.out


def completed(words: str, bootstrap: str) -> list[str]:
    """What bash would be offered for the last of the words."""
    wanted = {
        "_PYK_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    script = Path(sys.executable).with_name("pyk")
    done = subprocess.run(
        [script],
        env={**environment(bootstrap), **wanted},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_and_topics_are_completed(broker: str) -> None:
    pyk("topic", "create", "complete-1", "complete-2", "other", bootstrap=broker)
    assert completed("pyk con", broker) == ["consume", "config"]
    assert completed("pyk topic describe comp", broker) == ["complete-1", "complete-2"]
    assert completed("pyk consume comp", broker) == ["complete-1", "complete-2"]
    assert completed("pyk consume comp", "127.0.0.1:1") == []


def test_a_command_loads_only_what_it_needs(broker: str) -> None:
    program = (
        "import sys, pyk.cli\n"
        "try: pyk.cli.main(['topic', 'list'], prog_name='pyk')\n"
        "except SystemExit: print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment(broker),
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "pyk.cli.topic" in loaded
    unwanted = {"trio", "asyncio", "logging", "rich", "crc32c", "pyk.cli.consume", "pyk.config"}
    assert not unwanted & loaded
    assert not any(name.startswith(("pyk.log", "pyk.server")) for name in loaded)


def test_listing_topics_costs_less_than_importing_trio_twice(broker: str) -> None:
    def seconds(command: list[str]) -> float:
        def cpu() -> float:
            times = os.times()
            return times.children_user + times.children_system

        best = 1e9
        for _ in range(5):
            began = cpu()
            subprocess.run(command, env=environment(broker), stdout=subprocess.DEVNULL, check=True)
            best = min(best, cpu() - began)
        return best

    trio = seconds([sys.executable, "-c", "import trio"])
    listed = seconds([*COMMAND, "topic", "list"])
    print(f"pyk topic list {listed * 1000:.0f} ms, import trio {trio * 1000:.0f} ms")
    assert listed < 2 * trio
