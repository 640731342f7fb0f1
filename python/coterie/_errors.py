"""Exceptions: one class for each thing that can be done about a failure."""

from __future__ import annotations

import enum
from typing import Dict, Type


class Status(enum.IntEnum):
    """What kind of failure it was, as in coterie.h."""

    OK = 0
    INVALID_ARGUMENT = 1
    NOT_FOUND = 2
    BAD_MODEL = 3
    UNSUPPORTED = 4
    OUT_OF_MEMORY = 5
    CANCELLED = 6
    DEVICE_LOST = 7
    BUSY = 8
    INTERNAL = 9
    TOO_LONG = 10


class Error(Exception):
    """A failure of the library: `status` says what to do, the text is a sentence that says what happened."""

    status: Status = Status.INTERNAL


class InvalidArgument(Error, ValueError):
    """The caller's mistake: correct the call."""

    status = Status.INVALID_ARGUMENT


class TooLong(InvalidArgument):
    """More tokens than the context holds: shorten it, or make an engine with a larger context."""

    status = Status.TOO_LONG


class NotFound(Error, LookupError):
    """There is no such file, model or name."""

    status = Status.NOT_FOUND


class BadModel(Error):
    """The file is damaged or contradicts itself: fetch it again."""

    status = Status.BAD_MODEL


class Unsupported(Error, NotImplementedError):
    """Valid, but this build or device can't do it."""

    status = Status.UNSUPPORTED


class OutOfMemory(Error, MemoryError):
    """Ask for less, or free something."""

    status = Status.OUT_OF_MEMORY


class Cancelled(Error):
    """It was asked to stop."""

    status = Status.CANCELLED


class DeviceLost(Error):
    """A device failed: create a new engine without it."""

    status = Status.DEVICE_LOST


class Busy(Error):
    """The queue is full: try later."""

    status = Status.BUSY


class InternalError(Error):
    """A contradiction inside Coterie: please report it."""

    status = Status.INTERNAL


_CLASSES: Dict[int, Type[Error]] = {
    kind.status: kind
    for kind in (
        InvalidArgument,
        TooLong,
        NotFound,
        BadModel,
        Unsupported,
        OutOfMemory,
        Cancelled,
        DeviceLost,
        Busy,
        InternalError,
    )
}


def error_of(status: int, message: str) -> Error:
    return _CLASSES.get(status, InternalError)(message)
