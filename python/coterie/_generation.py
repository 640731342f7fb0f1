"""Generations: one answer each, taken event by event, with or without asyncio."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import os
import threading
from typing import Any, Deque, Dict, List, NamedTuple, NoReturn, Optional, Tuple, Union

from . import _native
from ._options import GenerationOptions, generation_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Unpack

_KINDS = (
    "none",
    "token",
    "content",
    "reasoning",
    "tool_call",
    "arguments",
    "tool_call_end",
    "finished",
    "prefill",
)
_FINISHED = 7
_REASONS = (None, "end", "stop", "length", "context", "cancelled", "time", "failed")


class Event(NamedTuple):
    """A piece of an answer. str() is its text if it is a part of the answer itself, else empty.

    kind: "token" (of generate, complete and raw chats; of others only with logprobs), "content", "reasoning",
    "tool_call" (call, id, name), "arguments" (call, text: pieces of one JSON object), "tool_call_end", "prefill" (done of
    total tokens of the prompt).
    """

    kind: str
    text: str
    token: int
    call: int
    id: str
    name: str
    logprob: float
    top: List[Tuple[int, float]]  # with logprobs: the likeliest tokens, best first
    done: int
    total: int

    def __str__(self) -> str:
        return self.text if self.kind in ("token", "content") else ""


@dataclasses.dataclass(frozen=True)
class GenerationStatistics:
    """What a generation took so far."""

    finish_reason: Optional[str]
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    queue_us: int  # waiting
    prefill_us: int  # until the first token
    decode_us: int  # after it
    preemptions: int
    seed: int  # that was used
    computed_tokens: int  # of the prompt


def _event(native: "_native.Event") -> Event:
    return Event(
        _KINDS[native.kind],
        native.text,
        native.token,
        native.call,
        native.id,
        native.name,
        native.logprob,
        native.top,
        native.done,
        native.total,
    )


class _Pump:
    """Brings a generation's events to an event loop, from a thread of its own that waits for them."""

    def __init__(self, generation: "_native.Generation", loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.events: Deque[Union["_native.Event", BaseException]] = collections.deque()
        self.arrived = asyncio.Event()
        self._generation = generation
        threading.Thread(target=self._run, name="coterie", daemon=True).start()

    def _run(self) -> None:
        last = False
        while not last:
            try:
                event: Union["_native.Event", BaseException, None] = self._generation.next(-1)
            except BaseException as error:  # goes to who waits
                event = error
            last = isinstance(event, BaseException) or event.kind == _FINISHED
            try:
                self.loop.call_soon_threadsafe(self._arrive, event)
            except RuntimeError:  # the loop is closed: nobody will ask any more
                self._generation.cancel()
                return

    def _arrive(self, event: Any) -> None:
        self.events.append(event)
        self.arrived.set()

    async def next(self) -> "_native.Event":
        while not self.events:
            self.arrived.clear()
            await self.arrived.wait()
        event = self.events.popleft()
        if isinstance(event, BaseException):
            raise event
        return event


class Generation:
    """One answer, taken by iterating, `async` or not, over its events; or as a whole with text() or message().

    Ctrl-C while waiting, and the cancellation of a task that waits, cancel it.
    """

    def __init__(self, native: "_native.Generation") -> None:
        self._native = native
        self._finish: Optional[int] = None
        self._stop = ""
        self._pump: Optional[_Pump] = None

    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event; None when none came within `timeout` seconds (0: looks only), or after the last."""
        if self._finish is not None:
            return None
        return self._take(self._native.next(-1 if timeout is None else int(timeout * 1000)))

    def _take(self, native: Optional["_native.Event"]) -> Optional[Event]:
        if native is None:
            return None
        if native.kind == _FINISHED:
            self._finish = native.finish_reason
            self._stop = native.text
            return None
        return _event(native)

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> Event:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Event:
        if self._finish is not None:
            raise StopAsyncIteration
        loop = asyncio.get_running_loop()
        if self._pump is None or self._pump.loop is not loop:
            self._pump = _Pump(self._native, loop)
        try:
            event = self._take(await self._pump.next())
        except asyncio.CancelledError:
            self.cancel()
            raise
        if event is None:
            raise StopAsyncIteration
        return event

    def text(self) -> str:
        """The text of the answer that is left, to its end; of a chat the content only."""
        return "".join(map(str, self))

    def message(self) -> Dict[str, Any]:
        """The rest of a chat's answer, to its end, as a message: "content", and where there are any "reasoning_content"
        and "tool_calls"."""
        collected = _Message()
        for event in self:
            collected.add(event)
        return collected.message()

    async def message_async(self) -> Dict[str, Any]:
        """As message(), without blocking the event loop."""
        collected = _Message()
        async for event in self:
            collected.add(event)
        return collected.message()

    async def text_async(self) -> str:
        """As text(), without blocking the event loop."""
        return "".join([str(event) async for event in self])

    @property
    def finish_reason(self) -> Optional[str]:
        """None until the last event was taken; then "end", "stop", "length", "context", "cancelled" or "time"."""
        return None if self._finish is None else _REASONS[self._finish]

    @property
    def stop_string(self) -> str:
        """Which of the stop strings ended the answer."""
        return self._stop

    @property
    def statistics(self) -> GenerationStatistics:
        facts = self._native.statistics()
        facts["finish_reason"] = _REASONS[facts["finish_reason"]]
        return GenerationStatistics(**facts)

    @property
    def tokens(self) -> List[int]:
        """The prompt's tokens and those of the answer so far."""
        return self._native.tokens()

    def cancel(self) -> None:
        """Asks it to end; seen within one step. Any thread."""
        self._native.cancel()

    def fork(self, **options: "Unpack[GenerationOptions]") -> Generation:
        """A second generation that continues from what this one has, sharing what is computed."""
        return Generation(self._native.fork(generation_options(options)))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes its tokens, and what is computed of them, for Engine.restore."""
        self._native.save(os.fspath(path))

    def close(self) -> None:
        """Cancels it if it runs, and frees it."""
        self._native.close()

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a coterie.Generation can't be pickled: it is a running computation; send its text or tokens")


class _Message:
    def __init__(self) -> None:
        self.content: List[str] = []
        self.reasoning: List[str] = []
        self.calls: Dict[int, Dict[str, Any]] = {}

    def add(self, event: Event) -> None:
        if event.kind == "content":
            self.content.append(event.text)
        elif event.kind == "reasoning":
            self.reasoning.append(event.text)
        elif event.kind == "tool_call":
            function = {"name": event.name, "arguments": ""}
            self.calls[event.call] = {"id": event.id, "type": "function", "function": function}
        elif event.kind == "arguments":
            self.calls[event.call]["function"]["arguments"] += event.text

    def message(self) -> Dict[str, Any]:
        message: Dict[str, Any] = {"role": "assistant", "content": "".join(self.content)}
        if self.reasoning:
            message["reasoning_content"] = "".join(self.reasoning)
        if self.calls:
            message["tool_calls"] = [self.calls[call] for call in sorted(self.calls)]
        return message
