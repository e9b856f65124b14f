"""What the runs of this process tell of queries: how long they took as written, and whether they ran before."""

from dataclasses import dataclass, replace

from qoop.latest import Latest

MAX_QUERIES = 1000
"""How many queries are kept; beyond that, those that ran longest ago are forgotten."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a query.

    `kinds`: whether it ran, planned (True) and as written (False). `seconds`, `slots`: those of the latest run as
    written that was not the first, which read so many `bytes`; None if that is not known. `unused`: for how many more
    runs they say nothing.
    """

    kinds: frozenset[bool] = frozenset()
    seconds: float | None = None
    slots: float = 1.0
    unused: int = 0
    bytes: float | None = None


class RunsHere:
    """The latest runs of queries, by a number for what identifies a query roughly."""

    def __init__(self) -> None:
        self._known: Latest[int, _Known] = Latest(MAX_QUERIES)

    def has_run(self, query: int, planned: bool) -> bool:
        """Whether a query ran planned, or as written: if not, Spark still compiles code for it, and opens its files."""
        return planned in self._of(query).kinds

    def seconds(self, query: int, slots: float, read: float | None = None) -> float | None:
        """What a query may take as written at a share, if all of its time is in proportion to that; None if unknown.

        It is the gate's business, which knows only how much a query reads. `read`: bytes; a run that read less than
        half of that, or more than twice as much, says nothing: its tables were others.
        """
        known = self._of(query)
        if known.seconds is None or known.unused or not _is_similar(known.bytes, read):
            return None
        return known.seconds * known.slots / slots

    def add(self, query: int, *kinds: bool) -> None:
        """Keep that a query ran in these ways."""
        known = self._of(query)
        self._known.put(query, replace(known, kinds=known.kinds.union(kinds)))

    def add_seconds(self, query: int, seconds: float, slots: float, unused: int = 0, read: float | None = None) -> None:
        """Keep a run as written. `unused`: how many more runs do not ask for its time, as it was planned in vain."""
        known = self._of(query)
        unused = max(unused, known.unused - 1, 0) if _is_similar(known.bytes, read) else unused
        self._known.put(query, replace(known, seconds=seconds, slots=slots, unused=unused, bytes=read))

    def _of(self, query: int) -> _Known:
        return self._known.get(query) or _Known()


def _is_similar(before: float | None, now: float | None) -> bool:
    """Whether two amounts of bytes are at most twice as large as each other; those that are not known are."""
    return before is None or now is None or max(before, now) <= 2.0 * min(before, now)
