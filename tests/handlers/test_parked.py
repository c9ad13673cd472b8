"""Requests that wait for news: tried at once, when they are woken, and when they are late."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from pyk.handlers.parked import TOLD_AT_ONCE, News, Parked

WAIT = 10.0
"""How long they wait here. Where that is for the whole of it, the clock jumps."""


class Shelf:
    """What is waited for: something that is put there."""

    def __init__(self) -> None:
        self.waiters: dict[Parked, None] = {}
        self.there: Any = None
        self.tried: list[bool] = []
        """Of each attempt whether it was late."""
        self._changed = trio.lowlevel.ParkingLot()

    def add_waiter(self, waiter: Parked, /) -> None:
        self.waiters[waiter] = None
        self._changed.unpark_all()

    def remove_waiter(self, waiter: Parked, /) -> None:
        self.waiters.pop(waiter, None)
        self._changed.unpark_all()

    async def until(self, waiters: int) -> None:
        """Until so many wait."""
        while len(self.waiters) != waiters:
            await self._changed.park()

    def put(self, there: Any) -> None:
        """What is there now, or is raised, and wake all who wait."""
        self.there = there
        self.wake()

    def wake(self) -> None:
        for waiter in self.waiters:
            waiter.wake()

    def look(self, is_late: bool) -> Any:
        """An attempt."""
        self.tried.append(is_late)
        if isinstance(self.there, Exception):
            raise self.there
        return "nothing" if self.there is None and is_late else self.there


class Waiter:
    """Somebody who waits for a shelf."""

    def __init__(self, news: News, *watched: Shelf) -> None:
        """The first is the one to look at."""
        self.happened: list[Any] = []
        deadline = trio.current_time() + WAIT
        self.parked = Parked(news, watched[0].look, watched, deadline)

    async def wait(self) -> None:
        await self.parked.wait(self.happened.append)

    async def wait_and_fail(self) -> None:
        def take(response: Any) -> None:
            self.happened.append(response)
            raise ZeroDivisionError("a bug")

        with pytest.raises(ZeroDivisionError, match="a bug"):
            await self.parked.wait(take)
        self.happened.append("raised")


@asynccontextmanager
async def told_by_nobody(
    *waiting: Callable[[], Awaitable[None]],
) -> AsyncIterator[trio.CancelScope]:
    """They wait meanwhile, until the end of the block and as long as they must. Its scope is
    around them."""
    async with trio.open_nursery() as nursery:
        for each in waiting:
            nursery.start_soon(each)
        await trio.testing.wait_all_tasks_blocked()
        yield nursery.cancel_scope


@asynccontextmanager
async def told_by_run(
    news: News, *waiting: Callable[[], Awaitable[None]]
) -> AsyncIterator[trio.CancelScope]:
    """The same, while `run` tells the news."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(news.run)
        async with told_by_nobody(*waiting) as scope:
            yield scope
        nursery.cancel_scope.cancel()


# Waiting for it


async def test_it_gives_the_response_once_it_is_woken_and_there_is_one() -> None:
    news, shelf, responses = News(), Shelf(), []
    waiter = Waiter(news, shelf)

    async def ask() -> None:
        responses.append(await waiter.parked)

    async with told_by_run(news, ask):
        assert responses == []
        shelf.put("records")
        await trio.testing.wait_all_tasks_blocked()
        assert responses == ["records"]
    assert shelf.tried == [False, False]


async def test_it_waits_for_all_that_it_watches() -> None:
    news, shelf, other = News(), Shelf(), Shelf()
    waiter = Waiter(news, shelf, other)
    async with told_by_nobody(waiter.wait):
        shelf.there = "records"
        other.wake()
        news.tell()
        assert waiter.happened == ["records"]


async def test_what_came_before_it_waits_is_found_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shelf = Shelf()
    waiter = Waiter(News(), shelf)
    shelf.put("records")
    assert await waiter.parked == "records"
    assert shelf.tried == [False]
    assert trio.current_time() == 0


async def test_it_goes_on_waiting_where_there_is_not_enough_and_can_be_woken_again() -> None:
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    async with told_by_nobody(waiter.wait):
        for tries in (2, 3):
            shelf.wake()
            news.tell()
            assert shelf.tried == [False] * tries
            assert waiter.happened == []
        shelf.put("records")
        news.tell()
        assert waiter.happened == ["records"]
        assert shelf.tried == [False] * 4


async def test_woken_twice_before_it_is_tried_it_is_tried_once() -> None:
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    async with told_by_nobody(waiter.wait):
        shelf.wake()
        shelf.wake()
        news.tell()
        assert shelf.tried == [False, False]
        assert not news
        shelf.put("records")
        news.tell()


async def test_it_takes_anything_at_its_deadline(autojump_clock: trio.testing.MockClock) -> None:
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    async with told_by_run(news):
        assert await waiter.parked == "nothing"
    assert shelf.tried == [False, True]
    assert trio.current_time() == WAIT


async def test_it_is_late_at_once_when_it_begins_to_wait_after_its_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shelf = Shelf()
    waiter = Waiter(News(), shelf)
    await trio.sleep(WAIT + 1)
    assert await waiter.parked == "nothing"
    assert shelf.tried == [False, True]
    assert trio.current_time() == WAIT + 1


# Responses that come later


async def later(response: Any, seconds: float = 0) -> Any:
    await trio.sleep(seconds)
    if isinstance(response, Exception):
        raise response
    return response


async def test_a_response_that_comes_later_is_awaited() -> None:
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    async with told_by_run(news, waiter.wait):
        shelf.put(later("records"))
        await trio.testing.wait_all_tasks_blocked()
        assert waiter.happened == ["records"]


async def test_a_response_that_was_found_in_time_may_come_after_the_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    async with told_by_run(news, waiter.wait):
        shelf.put(later("records", 2 * WAIT))
    assert waiter.happened == ["records"]
    assert shelf.tried == [False, False]
    assert trio.current_time() == 2 * WAIT


async def test_a_response_that_is_found_late_is_awaited_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def look(is_late: bool) -> Awaitable[str] | None:
        return later("nothing") if is_late else None

    assert await Parked(News(), look, [], trio.current_time() + WAIT) == "nothing"


async def test_a_response_is_closed_that_was_found_when_it_was_cancelled_already() -> None:
    news, shelf = News(), Shelf()
    waiter, response = Waiter(news, shelf), later("records")
    async with told_by_nobody(waiter.wait) as scope:
        scope.cancel()
        shelf.put(response)
        news.tell()
        assert shelf.tried == [False, False]
    assert waiter.happened == []
    assert inspect.getcoroutinestate(response) == inspect.CORO_CLOSED


async def test_a_response_is_closed_that_is_awaited_when_it_is_cancelled() -> None:
    news, shelf = News(), Shelf()
    waiter, response = Waiter(news, shelf), later("records", 1)
    async with told_by_run(news, waiter.wait) as scope:
        shelf.put(response)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
    assert waiter.happened == []
    assert inspect.getcoroutinestate(response) == inspect.CORO_CLOSED


# What fails


@pytest.mark.parametrize("comes_later", [False, True])
async def test_what_an_attempt_raises_is_raised_to_who_awaits(comes_later: bool) -> None:
    failure = ZeroDivisionError("a bug")
    shelf = Shelf()
    shelf.there = later(failure) if comes_later else failure
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await Waiter(News(), shelf).parked
    assert shelf.waiters == {}


@pytest.mark.parametrize("comes_later", [False, True])
async def test_what_an_attempt_raises_is_taken_for_the_response(comes_later: bool) -> None:
    failure = ZeroDivisionError("a bug")
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    async with told_by_nobody(waiter.wait):
        shelf.put(later(failure) if comes_later else failure)
        news.tell()
    assert waiter.happened == [failure]


@pytest.mark.parametrize("comes_later", [False, True])
async def test_who_brings_the_news_goes_on_though_a_response_cannot_be_taken(
    comes_later: bool,
) -> None:
    news, shelf, next_shelf = News(), Shelf(), Shelf()
    failing, other = Waiter(news, shelf), Waiter(news, next_shelf)
    async with told_by_nobody(failing.wait_and_fail, other.wait):
        shelf.put(later("mine") if comes_later else "mine")
        next_shelf.put("yours")
        news.tell()
        assert other.happened == ["yours"]
    assert failing.happened == ["mine", "raised"]


# The end


async def test_it_watches_nothing_any_more_when_it_is_answered() -> None:
    news, shelves = News(), (Shelf(), Shelf())
    waiter, failing = Waiter(news, *shelves), Waiter(news, *shelves)
    async with told_by_run(news, waiter.wait, failing.wait_and_fail):
        assert [len(shelf.waiters) for shelf in shelves] == [2, 2]
        shelves[0].put("records")
        await trio.testing.wait_all_tasks_blocked()
        assert [len(shelf.waiters) for shelf in shelves] == [0, 0]


async def test_it_watches_nothing_any_more_when_it_is_late(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shelves = Shelf(), Shelf()
    waiter = Waiter(News(), *shelves)
    async with told_by_nobody(waiter.wait):
        assert [len(shelf.waiters) for shelf in shelves] == [1, 1]
    assert [len(shelf.waiters) for shelf in shelves] == [0, 0]


async def test_it_watches_nothing_any_more_when_it_is_cancelled() -> None:
    shelves = Shelf(), Shelf()
    waiter = Waiter(News(), *shelves)
    async with told_by_nobody(waiter.wait) as scope:
        assert [len(shelf.waiters) for shelf in shelves] == [1, 1]
        scope.cancel()
    assert [len(shelf.waiters) for shelf in shelves] == [0, 0]


async def test_a_wake_after_it_was_answered_does_nothing() -> None:
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    async with told_by_nobody(waiter.wait):
        shelf.put("records")
        news.tell()
        waiter.parked.wake()
        news.tell()
    waiter.parked.wake()
    news.tell()
    assert waiter.happened == ["records"]
    assert shelf.tried == [False, False]


async def test_a_wake_after_it_was_late_does_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    await waiter.wait()
    shelf.there = "records"
    waiter.parked.wake()
    news.tell()
    assert waiter.happened == ["nothing"]
    assert shelf.tried == [False, True]


async def test_a_wake_after_it_was_cancelled_does_nothing() -> None:
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    async with told_by_nobody(waiter.wait) as scope:
        shelf.put("records")
        scope.cancel()
    news.tell()
    waiter.parked.wake()
    news.tell()
    assert waiter.happened == []
    assert shelf.tried == [False]


# News


async def test_some_are_told_at_once_in_the_order_of_their_waking_and_the_others_by_run() -> None:
    news, shelves = News(), [Shelf() for _ in range(TOLD_AT_ONCE + 5)]
    waiters = [Waiter(news, shelf) for shelf in shelves]
    async with told_by_run(news, *[each.wait for each in waiters]):
        news.is_attended = True
        for shelf in shelves:
            shelf.put("records")
        news.is_attended = False
        news.tell()
        answered = [each.happened == ["records"] for each in waiters]
        assert answered == [True] * TOLD_AT_ONCE + [False] * 5
        assert news
        await trio.testing.wait_all_tasks_blocked()
        assert [each.happened for each in waiters] == [["records"]] * len(waiters)
        assert not news


async def test_others_have_turns_while_run_tells_the_news() -> None:
    news, shelf, seen = News(), Shelf(), []
    waiters = [Waiter(news, shelf) for _ in range(20)]

    async def look_on() -> None:
        while not all(each.happened for each in waiters):
            seen.append(sum(bool(each.happened) for each in waiters))
            await trio.lowlevel.checkpoint()

    async with told_by_run(news, *[each.wait for each in waiters]):
        shelf.put("records")
        await look_on()
    assert len(set(seen)) > 10


async def test_run_leaves_to_who_brings_the_news_what_it_is_about_to_tell() -> None:
    news, shelf = News(), Shelf()
    waiter = Waiter(news, shelf)
    async with told_by_run(news, waiter.wait):
        news.is_attended = True
        shelf.put("records")
        news.is_attended = False
        await trio.testing.wait_all_tasks_blocked()
        assert shelf.tried == [False]
        assert news
        news.tell()
        assert waiter.happened == ["records"]
        assert not news


async def test_run_tells_what_nobody_attends_to_again_and_again() -> None:
    news = News()
    async with told_by_run(news):
        for response in ("one", "two", "three"):
            shelf = Shelf()
            waiter = Waiter(news, shelf)
            async with told_by_nobody(waiter.wait):
                shelf.put(response)
                await trio.testing.wait_all_tasks_blocked()
                assert waiter.happened == [response]


async def test_an_attempt_that_wakes_itself_is_tried_again_in_a_turn_of_its_own() -> None:
    news, tried = News(), []

    def attempt(is_late: bool) -> str | None:
        tried.append(is_late)
        if len(tried) == 5:
            return "records"
        parked.wake()
        return None

    parked = Parked(news, attempt, [], trio.current_time() + WAIT)

    async def wait() -> None:
        assert await parked == "records"

    async with told_by_nobody(wait):
        assert len(tried) == 1
        news.tell()
        assert len(tried) == 2
        async with told_by_run(news):
            await trio.testing.wait_all_tasks_blocked()
        assert tried == [False] * 5
