"""A journal clock that a test sets by hand."""


class HandClock:
    """Journal time and wall time are `now`, or what `now()` returns where it is a function."""

    def __init__(self, now=1000.0):
        self.time = now

    def resume(self, at, wall):
        """Go on from the last record: nothing to do, the test sets the time."""

    def now(self):
        return self.time() if callable(self.time) else self.time

    def wall(self):
        return self.now()
