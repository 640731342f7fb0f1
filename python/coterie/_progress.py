"""Progress of what takes time: none, a function of the caller's, or a bar of tqdm where that is installed."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional, Union

# Called with what is done ("loading", ...), the units done and the units in all; returns False to cancel.
ProgressFunction = Callable[[str, int, int], Any]
Progress = Union[bool, None, ProgressFunction]


@contextlib.contextmanager
def reporting(progress: Progress, unit: str) -> Iterator[Optional[ProgressFunction]]:
    """The function to give to the library for `progress`: None or False, a function, or True for a bar."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            yield None
            return
        with tqdm(unit=unit, unit_scale=True, leave=False) as bar:

            def tell(what: str, done: int, total: int) -> None:
                if bar.desc != what + ": ":
                    bar.set_description(what, refresh=False)
                    bar.reset(total)
                bar.total = total
                bar.update(done - bar.n)

            yield tell
    else:
        yield progress
