"""How much one apply does at the same time: models, and batches of a model beside its first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    """Counts what runs. A model waits for its slot; what helps one takes only what is left over.

    Args:
        count: How many there are.
    """

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self._free = self.count
        self._waiting = 0
        self._changed = threading.Condition()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a slot for a block, after waiting for one."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: self._free > 0)
            self._waiting -= 1
            self._free -= 1
        try:
            yield
        finally:
            self.give_back()

    def take_spare(self) -> bool:
        """Take a slot that nobody waits for, to be given back; say whether there was one."""
        with self._changed:
            spare = self._free > self._waiting
            self._free -= spare
            return spare

    def give_back(self) -> None:
        """Give a slot back."""
        with self._changed:
            self._free += 1
            self._changed.notify()
