"""Engines: a model placed on devices, answering, embedding and scoring."""

from __future__ import annotations

import enum
import json
import logging
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Union, overload

import numpy as np

from . import _native
from ._errors import InvalidArgument
from ._generation import Generation
from ._model import Model, TokenArray
from ._options import (
    ChatOptions,
    GenerationOptions,
    choice_of,
    generation_options,
    messages_json,
    schema_of,
    split_options,
)
from ._progress import Progress, reporting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    class _AllOptions(ChatOptions, GenerationOptions, total=False):
        pass


class EngineState(enum.IntEnum):
    """How an engine is."""

    READY = 0
    DEGRADED = 1  # it works, but slower: cores were taken from the CPU
    LOST = 2  # a device failed: create a new engine


class EngineEvent(NamedTuple):
    """What an engine tells of itself: "progress" of its loading, a change of "state", or a "warning"."""

    kind: str
    state: EngineState
    message: str
    done: int
    total: int


_EVENT_KINDS = {1: "progress", 2: "state", 3: "warning"}
_LOG_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
_POOLINGS = {None: 0, "mean": 1, "cls": 2, "last": 3}

Text = Union[str, TokenArray]


def _is_one(texts: Any) -> bool:
    """Whether it is one text or one sequence of tokens, and not several."""
    if isinstance(texts, str):
        return True
    if isinstance(texts, np.ndarray):
        return texts.ndim == 1
    return len(texts) > 0 and isinstance(texts[0], (int, np.integer))


def _inputs(texts: Any) -> List[Any]:
    several = [texts] if _is_one(texts) else list(texts)
    return [t if isinstance(t, str) else np.asarray(t, dtype=np.int32) for t in several]


class Engine:
    """A model placed on devices, which it never leaves for others than asked for. For any thread.

    devices: None or "cpu", "cpu:4" (four ranks), "reference"; the rest as coterie_engine_options in coterie.h.
    progress: True for a bar (with tqdm), or a function of (what, done, total) that returns False to cancel.
    log: a logging.Logger, or a function of (level, line). events: a function of an EngineEvent. Both are called on the
    engine's threads, hold it up while they run, and lose their exceptions to sys.unraisablehook.
    """

    def __init__(
        self,
        model: Union[Model, str, "os.PathLike[str]"],
        *,
        devices: Optional[str] = None,
        threads: int = 0,
        isa: Optional[str] = None,
        context_tokens: int = 0,
        parallel: int = 1,
        step_rows: int = 0,
        key_type: Optional[str] = None,
        value_type: Optional[str] = None,
        queue: int = 0,
        reuse_prefixes: bool = True,
        mode: Optional[str] = None,
        draft_tokens: int = 0,
        host_experts: bool = False,
        device_memory_bytes: int = 0,
        progress: Progress = None,
        log: Union[None, logging.Logger, Callable[[int, str], Any]] = None,
        events: Optional[Callable[[EngineEvent], Any]] = None,
    ) -> None:
        self._model = model if isinstance(model, Model) else Model(model)
        options = {
            "devices": devices,
            "threads": threads,
            "isa": isa,
            "context_tokens": context_tokens,
            "parallel": parallel,
            "step_rows": step_rows,
            "key_type": key_type,
            "value_type": value_type,
            "queue": queue,
            "no_prefix_reuse": 0 if reuse_prefixes else 1,
            "mode": mode,
            "draft_tokens": draft_tokens,
            "host_experts": int(host_experts),
            "device_memory_bytes": device_memory_bytes,
        }
        if isinstance(log, logging.Logger):
            logger = log
            log = lambda level, line: logger.log(_LOG_LEVELS[level], "%s", line)  # noqa: E731
        tell_event = None
        if events is not None:
            listener = events

            def tell_event(kind: int, state: int, message: str, done: int, total: int) -> None:
                listener(EngineEvent(_EVENT_KINDS.get(kind, str(kind)), EngineState(state), message, done, total))

        with reporting(progress, "B") as tell:
            self._native = _native.Engine(self._model._native, options, log, tell_event, tell)
        info = self._model.info
        self._embedding, self._vocabulary = info.embedding, info.vocabulary

    @property
    def model(self) -> Model:
        return self._model

    @property
    def state(self) -> EngineState:
        return EngineState(self._native.state())

    @property
    def statistics(self) -> Dict[str, Any]:
        """Generations, cache, steps and rates since the engine was made, as coterie_engine_statistics in coterie.h."""
        return self._native.statistics()

    @property
    def description(self) -> Dict[str, Any]:
        """Where the model lies: ranks, devices and their bytes; the state and its reason."""
        return json.loads(self._native.describe(1))

    def generate(self, prompt: Text, **options: "Unpack[GenerationOptions]") -> Generation:
        """Continues a text (special tokens in it are read) or token ids. Returns at once."""
        native = generation_options(options)
        if isinstance(prompt, str):
            return Generation(self._native.complete(prompt, native))
        return Generation(self._native.generate(np.asarray(prompt, dtype=np.int32), native))

    def chat(
        self,
        messages: Union[str, Sequence[Mapping[str, Any]]],
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        *,
        tool_choice: Union[None, str, Mapping[str, Any]] = None,
        response_format: Optional[Mapping[str, Any]] = None,
        **options: "Unpack[_AllOptions]",
    ) -> Generation:
        """Answers a conversation: a user's text, or messages, tools, tool_choice and response_format in the form of
        OpenAI's chat completions. Returns at once."""
        chat, native = split_options(options)
        schema = schema_of(response_format)
        if schema is not None:
            native["json_schema"] = schema
        native["tool_choice"] = choice_of(tool_choice)
        tools_json = None if tools is None else json.dumps(list(tools))
        return Generation(self._native.chat(messages_json(messages), tools_json, chat, native))

    def restore(
        self, path: Union[str, "os.PathLike[str]"], **options: "Unpack[GenerationOptions]"
    ) -> Generation:
        """Continues what Generation.save wrote."""
        return Generation(self._native.restore(os.fspath(path), generation_options(options)))

    def embed(
        self,
        texts: Union[Text, Sequence[Text]],
        *,
        pooling: Optional[str] = None,
        normalize: bool = True,
        dimensions: Optional[int] = None,
        truncate: bool = False,
        priority: int = 0,
        progress: Progress = None,
    ) -> "NDArray[np.float32]":
        """Embeddings: of one text [width], of several [texts, width]. pooling: "mean", "cls", "last", or None for the
        file's own; scaled to length 1 if `normalize`; the first `dimensions` only."""
        if pooling not in _POOLINGS:
            raise InvalidArgument(f'pooling is {pooling!r}; "mean", "cls", "last" and None are known')
        options = {
            "pooling": _POOLINGS[pooling],
            "raw": 0 if normalize else 1,
            "dimensions": dimensions or 0,
            "truncate": int(truncate),
            "priority": priority,
        }
        with reporting(progress, "tokens") as tell:
            rows = self._native.embed(_inputs(texts), dimensions or self._embedding, options, tell)
        return rows[0] if _is_one(texts) else rows

    def logits(
        self, text: Text, *, rows: str = "last", priority: int = 0, progress: Progress = None
    ) -> "NDArray[np.float32]":
        """Logits after the last token [vocabulary], or after each (rows="all") [tokens, vocabulary]."""
        if rows not in ("last", "all"):
            raise InvalidArgument(f'rows is {rows!r}; "last" and "all" are known')
        tokens = self._model.tokenize(text) if isinstance(text, str) else text
        tokens = np.asarray(tokens, dtype=np.int32)
        first = 0 if rows == "all" else max(len(tokens) - 1, 0)
        with reporting(progress, "tokens") as tell:
            result = self._native.logits(tokens, first, self._vocabulary, {"priority": priority}, tell)
        return result if rows == "all" else result[0]

    @overload
    def score(
        self, texts: Text, *, truncate: bool = ..., priority: int = ..., progress: Progress = ...
    ) -> "NDArray[np.float32]": ...
    @overload
    def score(
        self, texts: Sequence[Text], *, truncate: bool = ..., priority: int = ..., progress: Progress = ...
    ) -> "List[NDArray[np.float32]]": ...
    def score(self, texts: Any, *, truncate: bool = False, priority: int = 0, progress: Progress = None) -> Any:
        """The natural logarithm of each token's probability after those before it (0 for the first): an array for a
        text, a list of them for several. Their sum is the text's log-likelihood."""
        with reporting(progress, "tokens") as tell:
            all_of, ends = self._native.score(
                _inputs(texts), {"truncate": int(truncate), "priority": priority}, tell
            )
        parts = [all_of[begin:end] for begin, end in zip([0, *ends], ends)]
        return parts[0] if _is_one(texts) else parts

    def close(self) -> None:
        """Frees the engine once its generations have ended; cancels nothing."""
        self._native.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self._native.describe(0)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a coterie.Engine can't be pickled: it owns devices and threads; create one in each process")
