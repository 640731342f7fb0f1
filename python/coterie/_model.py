"""Models: what a file holds, its tokens, its chat template, and where it would fit."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Union

import numpy as np

from . import _native
from ._options import ChatOptions, chat_options, messages_json
from ._progress import Progress, reporting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Unpack

TokenArray = Union[Sequence[int], "np.ndarray[Any, Any]"]


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """The numbers of a model."""

    layers: int
    embedding: int
    vocabulary: int
    experts: int  # 0 for a dense model
    experts_used: int
    context_tokens: int  # that it was made for
    file_bytes: int
    weight_bytes: int
    recurrent: bool  # some layers keep a recurrent state
    has_chat_template: bool


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where a model would lie on a machine, how fast it would be, or why it does not fit. str() is for people."""

    fits: bool
    text: str
    data: Dict[str, Any]

    def __str__(self) -> str:
        return self.text


class Model:
    """A GGUF file (or a split set, or a model that Ollama or Hugging Face's hub stored here, by its name).

    Opening reads headers only: milliseconds, whatever the size. Immutable, for any thread.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, progress: Progress = None) -> None:
        with reporting(progress, "B") as tell:
            self._native = _native.Model(os.fspath(path), tell)
        self._path = os.fspath(path)

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(**self._native.info())

    @property
    def sampling_defaults(self) -> Dict[str, Any]:
        """What a generation uses where nothing is said, and where that comes from ("source")."""
        return json.loads(self._native.sampling_defaults())

    def metadata(self, key: str) -> str:
        """One value of the file's metadata as text. Raises NotFound."""
        return self._native.metadata(key)

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> List[int]:
        """Token ids of a text; with the model's own tokens at its ends, and reading names of control tokens in it
        only if asked to (not for what users type)."""
        return self._native.tokenize(text, (1 if add_special else 0) | (2 if parse_special else 0))

    def detokenize(self, tokens: TokenArray, *, special: bool = False) -> str:
        """The text of token ids; control tokens give theirs if `special`."""
        return self._native.detokenize(np.asarray(tokens, dtype=np.int32), 1 if special else 0)

    def is_end(self, token: int) -> bool:
        """Whether the token ends an answer."""
        return self._native.is_end(token)

    def render(
        self,
        messages: Union[str, Sequence[Mapping[str, Any]]],
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        **options: "Unpack[ChatOptions]",
    ) -> str:
        """The exact prompt for a conversation in the form of OpenAI's chat completions."""
        tools_json = None if tools is None else json.dumps(list(tools))
        return self._native.render(messages_json(messages), tools_json, chat_options(options))

    def plan(
        self,
        *,
        machine: Optional[str] = None,
        devices: Optional[str] = None,
        context_tokens: int = 0,
        parallel: int = 1,
        mode: Optional[str] = None,
        key_type: Optional[str] = None,
        value_type: Optional[str] = None,
        step_rows: int = 0,
        host_experts: bool = False,
    ) -> Plan:
        """Where the model would lie, on this machine or another (a built-in name such as "4x3090", or a JSON file).
        Loads nothing; a plan that does not fit says why and what would."""
        fits, text, data = self._native.plan(
            {
                "machine": machine,
                "devices": devices,
                "context_tokens": context_tokens,
                "parallel": parallel,
                "mode": mode,
                "key_type": key_type,
                "value_type": value_type,
                "step_rows": step_rows,
                "host_experts": int(host_experts),
            }
        )
        return Plan(fits, text, json.loads(data))

    def close(self) -> None:
        """Lets the file go; engines made of it keep it."""
        self._native.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"coterie.Model({self._path!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a coterie.Model can't be pickled: it is a mapped file; send its path and open it there")
