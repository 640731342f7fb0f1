"""Coterie: large mixture-of-experts language models from GGUF files, on the hardware at hand.

    >>> import coterie
    >>> model = coterie.Model("model.gguf")
    >>> engine = coterie.Engine(model)
    >>> for event in engine.chat("Why is the sky blue?"):
    ...     print(event, end="", flush=True)

A `Model` describes a file, an `Engine` is a model placed on devices, a `Generation` is one answer: an iterator and an
asynchronous iterator of `Event`. Every wait gives the interpreter's lock away; Ctrl-C stops what is waited for; errors are
subclasses of `Error` with a status and a sentence that says what to do. Objects may be used from several threads.
"""

from __future__ import annotations

import atexit as _atexit
import json as _json
from typing import Any, Dict

from . import _native
from ._engine import Engine, EngineEvent, EngineState
from ._errors import (
    BadModel,
    Busy,
    Cancelled,
    DeviceLost,
    Error,
    InternalError,
    InvalidArgument,
    NotFound,
    OutOfMemory,
    Status,
    TooLong,
    Unsupported,
)
from ._generation import Event, Generation, GenerationStatistics
from ._model import Model, ModelInfo, Plan
from ._options import ChatOptions, GenerationOptions

__version__: str = _native.version

__all__ = [
    "BadModel",
    "Busy",
    "Cancelled",
    "ChatOptions",
    "DeviceLost",
    "Engine",
    "EngineEvent",
    "EngineState",
    "Error",
    "Event",
    "Generation",
    "GenerationOptions",
    "GenerationStatistics",
    "InternalError",
    "InvalidArgument",
    "Model",
    "ModelInfo",
    "NotFound",
    "OutOfMemory",
    "Plan",
    "Status",
    "TooLong",
    "Unsupported",
    "devices",
]


def devices() -> Dict[str, Any]:
    """The devices of this machine under "devices", and those that can't be used, with the reason, under "missing"."""
    return _json.loads(_native.devices(1))


# Before the interpreter goes, running generations are cancelled and engines closed: their threads must not outlive it.
_atexit.register(_native.shutdown)
