"""From a frame to its answer: header, body, handler, response.

An answer is chunks to be sent, None where the client expects nothing, or `Waiting` for one of
these. What is not the protocol is a ProtocolError. A handler that fails over a bug is answered
for, as in Kafka, with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from time import perf_counter_ns
from typing import Any, Final, TypeAlias

from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.handlers.call import Call, InTurn, Peer
from pyk.handlers.parked import Parked
from pyk.handlers.table import Endpoint
from pyk.offload import Elsewhere, in_thread
from pyk.server.traffic import Traffic
from pyk.sparing import Sparing
from pyk.wire.apis import ApiKey, advertised, response_type
from pyk.wire.codec import (
    PLAIN_BYTES_MAX,
    PLAIN_USES,
    decoder_of,
    encoder_of,
    plain_decoder_of,
    plain_encoder_of,
)
from pyk.wire.frames import SMALL_BYTES_MAX, Frame
from pyk.wire.headers import RequestHeader
from pyk.wire.message import layout
from pyk.wire.request import api_key, encode_response, read_header, response_encoder
from pyk.wire.shapes import Chunks
from pyk.wire.writer import has_more_elements_than

Answer: TypeAlias = Chunks | None
Offer: TypeAlias = Callable[[Chunks], Chunks]
"""Sends what a client takes at once. What is left."""

Finish: TypeAlias = Callable[[Any], "Answer | Coroutine[Any, Any, Answer]"]

LARGE_ELEMENTS_MIN: Final = 1500
"""A response of more elements than that is encoded elsewhere: each takes a microsecond or two."""
ALWAYS_SMALL: Final = frozenset(
    {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT, ApiKey.API_VERSIONS}
)
"""These are frequent, and their responses no larger than their requests: they are not looked at."""

logger = logging.getLogger(__name__)


class Waiting:
    """An answer that is not there yet.

    Answers go out in the order of the requests and are awaited in that order too. So a time limit
    inside of one is a moment that was fixed when its request came, not a duration.
    """

    __slots__ = ("_finish", "_response", "holds")

    def __init__(self, response: Awaitable[Any], finish: Finish, *, holds: bool) -> None:
        """`finish` makes the answer of the response, or of the exception that came instead. For a
        large one it gives a coroutine."""
        self._response = response
        self._finish = finish
        self.holds = holds
        """Whether the connection's next requests wait too, as they do in Kafka."""

    async def answer(self, offer: Offer) -> Answer:
        """All of it, or what is left if a part went out as soon as it was there."""
        if isinstance(self._response, Parked):
            return await self._park(self._response, offer)
        try:
            response = await self._response
        except ProtocolError:
            raise
        except Exception as failure:
            response = failure
        answer = self._finish(response)
        return await answer if isinstance(answer, Coroutine) else answer

    async def _park(self, parked: Parked, offer: Offer) -> Answer:
        left: Answer | Coroutine[Any, Any, Answer] = None

        def take(response: Any) -> None:
            nonlocal left
            if isinstance(response, ProtocolError):
                raise response
            left = self._finish(response)
            if isinstance(left, list):
                left = offer(left)

        await parked.wait(take)
        return await left if isinstance(left, Coroutine) else left

    def abandon(self) -> None:
        """Nobody will await it."""
        if isinstance(self._response, Coroutine):
            try:
                self._response.close()
            except Exception:
                # Whoever abandons it has others to see to.
                logger.exception("a bug in what nobody waits for")


Dispatch: TypeAlias = Callable[[Frame, Peer], Answer | Waiting]


class _Route:
    """One version of one API, with everything looked up."""

    __slots__ = (
        "_body_encoder", "_bugs", "_is_small", "_offload", "encode", "endpoint", "key",
        "read_body", "read_header", "response", "traffic", "version",
    )  # fmt: skip

    def __init__(
        self,
        key: ApiKey,
        version: int,
        endpoint: Endpoint,
        traffic: Traffic,
        bugs: Sparing,
        offload: Elsewhere,
        *,
        is_plain: bool,
    ) -> None:
        """A plain one has codecs that are not compiled."""
        of = layout(endpoint.request)
        self.key = key
        self.version = version
        self.endpoint = endpoint
        self.response = response_type(key)
        header_version = 2 if of.flexible.covers(version) else 1
        decoder, encoder = decoder_of, encoder_of
        if is_plain:
            decoder, encoder = plain_decoder_of, plain_encoder_of
        self.read_header = decoder(RequestHeader, header_version)
        self.read_body = decoder(endpoint.request, version)
        self.traffic = traffic
        self._is_small = key in ALWAYS_SMALL
        self._offload = offload
        self._body_encoder = encoder(self.response, version)
        encode = response_encoder(key, version, self._body_encoder, traffic.note_error)
        self.encode = remembering(encode) if endpoint.repeats_itself else encode
        self._bugs = bugs

    def finish(
        self, began: int, handled: int, correlation_id: int, request: Any, response: Any
    ) -> Answer | Coroutine[Any, Any, Answer]:
        """The answer that came of what is `Waiting`, or what gives it."""
        self.traffic.waited_nanoseconds += perf_counter_ns() - handled
        if isinstance(response, Exception):
            response = self.refuse(request, response)
        if response is None:
            return None
        if self.is_large(response):
            return self._finish_large(began, correlation_id, response)
        answer = self.encode(correlation_id, response)
        self.traffic.count(answer, perf_counter_ns() - began)
        return answer

    def is_large(self, response: Any) -> bool:
        return not self._is_small and has_more_elements_than(response, LARGE_ELEMENTS_MIN)

    async def _finish_large(self, began: int, correlation_id: int, response: Any) -> Answer:
        codes: list[int] = []
        encode = response_encoder(self.key, self.version, self._body_encoder, codes.append)
        answer = await self._offload(lambda: encode(correlation_id, response))
        for code in codes:
            self.traffic.note_error(code)
        self.traffic.count(answer, perf_counter_ns() - began)
        return answer

    def refuse(self, request: Any, failure: Exception) -> Any:
        """What the client hears of a refusal, or of a bug, which is for the log."""
        if not isinstance(failure, KafkaError):
            more = self._bugs.next_line()
            if more is not None:
                what = f"{self.key.name} v{self.version}"
                logger.error("%s failed over a bug%s", what, more, exc_info=failure)
            failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self.endpoint.refuse(request, failure)


async def _at_once(response: Any) -> Any:
    return response


def remembering(encode: Callable[[int, Any], Chunks]) -> Callable[[int, Any], Chunks]:
    """An encoder that does not encode the same response twice, if it comes twice in a row."""
    last: Any = None
    encoded: Chunks = []

    def encode_or_remember(correlation_id: int, response: Any) -> Chunks:
        nonlocal last, encoded
        if response is not last:
            last, encoded = response, encode(correlation_id, response)
            return list(encoded)
        first, *others = encoded
        assert isinstance(first, bytes)
        return [first[:4] + correlation_id.to_bytes(4, "big", signed=True) + first[8:], *others]

    return encode_or_remember


class Dispatcher:
    """The table of endpoints as a `Dispatch`."""

    def __init__(
        self,
        endpoints: Mapping[ApiKey, Endpoint],
        broker: Any,
        offload: Elsewhere = in_thread,
    ) -> None:
        """`broker` is what the handlers are given."""
        self._offload = offload
        self._endpoints = endpoints
        self._broker = broker
        self._routes: dict[bytes, _Route] = {}
        """By the first four bytes of a frame, which are the API key and its version."""
        self._plain_uses: dict[bytes, int] = {}
        """How many requests of a kind came before it had a route to keep."""
        self.traffic: dict[ApiKey, Traffic] = {}
        """Of those that were ever asked for."""
        self._bugs = Sparing()

    def __call__(self, frame: Frame, peer: Peer) -> Answer | Waiting:
        began = perf_counter_ns()
        route = self._routes.get(bytes(frame[:4]))
        if route is None:
            return self._first_of_its_kind(frame, peer)
        traffic = route.traffic
        traffic.request_bytes += len(frame)
        if len(frame) <= SMALL_BYTES_MAX:
            header, position = route.read_header(frame)
        else:
            header, position = read_header(frame)
        request, _ = route.read_body(frame, position)
        endpoint = route.endpoint
        try:
            response = endpoint.handle(
                request, Call(route.version, header.client_id, peer), self._broker
            )
        except ProtocolError:
            raise
        except Exception as failure:
            response = route.refuse(request, failure)
        if type(response) is route.response and not route.is_large(response):
            answer = route.encode(header.correlation_id, response)
            # What `Traffic.count` does, without a call: here each of them shows.
            traffic.answer_bytes += len(answer[0]) if len(answer) == 1 else sum(map(len, answer))
            took, nanoseconds = traffic.took, perf_counter_ns() - began
            took.nanoseconds += nanoseconds
            took.counts[(nanoseconds // 1000).bit_length()] += 1
            return answer
        if response is None:
            traffic.took.add(perf_counter_ns() - began)
            return None
        finish = partial(route.finish, began, perf_counter_ns(), header.correlation_id, request)
        if isinstance(response, InTurn):
            return Waiting(response.outcome, finish, holds=True)
        if type(response) is route.response:
            return Waiting(_at_once(response), finish, holds=True)
        return Waiting(response, finish, holds=not endpoint.is_pipelined)

    def _first_of_its_kind(self, frame: Frame, peer: Peer) -> Answer | Waiting:
        if len(frame) < 8:
            raise ProtocolError(f"a request of {len(frame)} bytes is shorter than its header")
        key = api_key(int.from_bytes(frame[:2], "big", signed=True))
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            # Before its header is read: that would import the messages of an API that nobody has.
            raise ProtocolError(f"{key.name} is not served")
        header, _ = read_header(frame)
        version = header.request_api_version
        of = layout(endpoint.request)
        if not of.versions.covers(version) or version > advertised(key).highest:
            if key is not ApiKey.API_VERSIONS:
                raise ProtocolError(f"{key.name} v{version} is not served")
            from pyk.handlers import api_versions

            refusal = api_versions.unsupported({key: advertised(key)})
            return encode_response(key, 0, header.correlation_id, refusal)
        traffic = self.traffic.setdefault(key, Traffic())
        kind = bytes(frame[:4])
        uses = self._plain_uses[kind] = self._plain_uses.get(kind, 0) + 1
        is_plain = uses <= PLAIN_USES and len(frame) <= PLAIN_BYTES_MAX
        self._routes[kind] = _Route(
            key, version, endpoint, traffic, self._bugs, self._offload, is_plain=is_plain
        )
        try:
            return self(frame, peer)
        finally:
            if is_plain:
                del self._routes[kind]
