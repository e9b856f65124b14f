"""How much work the search for join trees may take."""

from qoop.as_written.causes import Excess, TooMuch
from qoop.errors import CannotSplitError

MAX_EFFORT = 4_000_000
"""The limit for one query: two to four seconds on a slow core. TPC-DS queries take a tenth of it at most.

To rank a join counts 1, to estimate its cost as many as there are relations.
"""


class Effort:
    """The work left for one query: a count and no clock, so that a query gets the same plans every time."""

    def __init__(self, limit: int = MAX_EFFORT) -> None:
        self._left = limit

    def spend(self, amount: int) -> None:
        """Count work that is about to be done.

        Raises:
            CannotSplitError: it is more than what is left.
        """
        self._left -= amount
        if self._left < 0:
            raise CannotSplitError(TooMuch(Excess.JOINS))
