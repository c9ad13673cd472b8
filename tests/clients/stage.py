"""Clients that take part in a test, each in a process of its own, and what they say happens."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tests.clients.groups.group import producer as plain_producer
from tests.clients.groups.processes import Process, Processes
from tests.clients.groups.programs.member import Partition
from tests.clients.kinds import ClientKind
from tests.clients.stored import create_topic, wait_until_known

if TYPE_CHECKING:
    from confluent_kafka import Producer

Kind = TypeVar("Kind", bound=ClientKind[Any])

WAIT = 90.0
"""Seconds after which what is waited for will not come any more."""
PATIENCE = 10.0
POLL_SECONDS = 0.1
SHOWN_EVENTS = 30
SHOWN_CHARACTERS = 500
SHOWN_LINES = 60


class Actor(Generic[Kind]):
    def __init__(self, play: Stage[Kind], kind: Kind, name: str) -> None:
        self.kind = kind
        self.name = name
        self.is_closed = False
        self._play = play
        self._process: Process = play.processes.take(kind.program())
        self._answers: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"{self.kind.name} {self.name}"

    # What it is told to do

    def start(self, do: str, **details: object) -> None:
        self._process.tell(do, **details)

    def answer(self, do: str) -> dict[str, Any]:
        """To what was started."""
        self._play.wait_until(lambda: bool(self._answers), f"{self} has answered to {do}")
        return self._answers.pop(0)

    def do(self, do: str, **details: object) -> dict[str, Any]:
        self.start(do, **details)
        answer = self.answer(do)
        assert answer["event"] == "done", f"{self} was to {do}, and said {answer}"
        return answer

    def attempt(self, do: str, **details: object) -> str | None:
        """Why it was refused, None if it is done."""
        self.start(do, **details)
        answer = self.answer(do)
        return None if answer["event"] == "done" else str(answer["reason"])

    # Its end

    def close(self) -> None:
        """As a user of its client closes it."""
        self.start("close")
        self._play.wait_until(lambda: self.is_closed, f"{self} is closed")
        self.see_off()

    def see_off(self) -> None:
        """Its process may be somebody else then, if it is closed."""
        if self.is_closed:
            self._play.let_go(self)
            self._play.processes.give_back(self._process)
        else:
            self.kill()

    @property
    def has_ended(self) -> bool:
        return self._process.has_ended

    def kill(self) -> None:
        self._process.kill()
        self._play.let_go(self)

    def freeze(self) -> None:
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.signal(signal.SIGCONT)

    # What it says

    def note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "done" | "refused":
                self._answers.append(event)
            case _:
                assert event["event"] == "closed", event
                self.is_closed = True


class Stage(Generic[Kind]):
    """What a play has, whatever it is about: topics, records, and those who are on."""

    def __init__(self, address: str, kind: Kind, processes: Processes) -> None:
        self.address = address
        self.kind = kind
        self.processes = processes
        self._actors: dict[str, Actor[Kind]] = {}
        self._seen: list[dict[str, Any]] = []
        self._plain: Producer | None = None

    def end(self) -> None:
        """Whoever is there is closed, or killed where that takes long: a test may have failed."""
        actors = [each for each in self._actors.values() if not each.has_ended]
        for each in actors:
            each.start("close")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not all(each.is_closed for each in actors):
            self.take_in(POLL_SECONDS)
        for each in list(self._actors.values()):
            each.see_off()

    def topic(self, partitions: int = 1, **configs: str) -> list[Partition]:
        """The partitions of a new one."""
        name = f"topic-{uuid.uuid4()}"
        create_topic(self.address, name, partitions, **configs)
        wait_until_known(self.address, name, partitions)
        return [Partition(name, number) for number in range(partitions)]

    def write(self, partition: Partition, *values: str, timestamp_ms: int = 0) -> None:
        """Without a transaction. All are acknowledged."""
        self._plain = self._plain or plain_producer(self.address)
        failures: list[object] = []
        for value in values:
            self._plain.produce(
                partition.topic,
                value,
                partition=partition.number,
                timestamp=timestamp_ms,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert self._plain.flush(WAIT) == 0
        assert failures == []

    def enter(self, actor: Actor[Kind], do: str, **details: object) -> None:
        """It becomes what it is told to be."""
        self._actors[actor.name] = actor
        actor.do(do, **details)

    def let_go(self, actor: Actor[Kind]) -> None:
        """It says no more, but for what it has said already."""
        self.take_in(0)
        del self._actors[actor.name]

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not holds():
            assert time.monotonic() < deadline, self.explain(f"it never came true that {what}")
            ended = [each for each in self._actors.values() if each.has_ended]
            assert not ended, self.explain(f"these have ended by themselves: {ended}")
            self.take_in(POLL_SECONDS)

    def take_in(self, seconds: float) -> None:
        for event in self.processes.events(seconds):
            actor = self._actors.get(event["by"])
            if actor is not None:  # None: killed, or left over from another test.
                self._seen.append(event)
                actor.note(event)

    def explain(self, what: str) -> str:
        """With what may have led to it."""
        last = "\n".join(str(each)[:SHOWN_CHARACTERS] for each in self._seen[-SHOWN_EVENTS:])
        logged = self.processes.log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
        return (
            f"{what}; there are {list(self._actors.values())}; the last events:\n{last}\n"
            "and what was logged:\n" + "\n".join(logged)
        )
