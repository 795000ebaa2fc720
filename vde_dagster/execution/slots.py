"""How much one apply does at the same time: models, and batches of a model beside its first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
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
        self._waiting_alone = 0
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def held(self, *, alone: bool = False) -> Iterator[Callable[[], bool]]:
        """Hold a slot for a block, after waiting for one.

        Args:
            alone: Wait until nothing else is done, and let nothing else begin.

        Returns:
            What says whether nothing else was done in the block so far.
        """
        needed = self.count if alone else 1
        with self._changed:
            self._waiting += needed
            self._waiting_alone += alone
            self._changed.wait_for(
                lambda: self._free >= needed and (alone or not self._waiting_alone)
            )
            self._waiting -= needed
            self._waiting_alone -= alone
            beside = self._free < self.count
            self._free -= needed
            self._taken += 1
            taken = self._taken
        try:
            yield lambda: not beside and self._taken == taken
        finally:
            self.give_back(needed)

    def take_spare(self) -> bool:
        """Take a slot that nobody waits for, to be given back; say whether there was one."""
        with self._changed:
            spare = self._free > self._waiting
            self._free -= spare
            self._taken += spare
            return spare

    def give_back(self, slots: int = 1) -> None:
        """Give slots back."""
        with self._changed:
            self._free += slots
            self._changed.notify_all()
