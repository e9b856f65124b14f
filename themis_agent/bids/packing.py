"""Whether gangs of given sizes fit into cells, each gang in one cell."""

from collections.abc import Sequence

from themis_agent.bids.spread import Bins


def seats(bins: Bins, size: int) -> int:
    """How many gangs of one size fit."""
    return sum([count * (room // size) for room, count in bins])


def fits(bins: Bins, gangs: Sequence[tuple[int, int]]) -> bool:
    """Whether these gangs fit: (size, how many), the largest size first; by best fit decreasing.

    Exact for gangs of one size and when every size divides the next larger one; otherwise it may miss a packing.
    """
    if len(gangs) == 1:
        return seats(bins, gangs[0][0]) >= gangs[0][1]
    rooms = dict(bins)
    for size, wanted in gangs:
        if size == 1:
            return sum(room * cells for room, cells in rooms.items()) >= wanted
        if not _place(rooms, size, wanted):
            return False
    return True


def _place(rooms: dict[int, int], size: int, wanted: int) -> bool:
    """Put gangs into the smallest cells that have room for one, each filled before the next; whether all fit."""
    for room in sorted(rooms):
        if wanted == 0:
            break
        each = room // size
        if each == 0:
            continue
        filled = min(rooms[room], wanted // each)
        _shrink(rooms, room, each * size, filled)
        wanted -= filled * each
        if wanted < each and rooms[room] > 0:
            _shrink(rooms, room, wanted * size, 1)
            wanted = 0
    return wanted == 0


def _shrink(rooms: dict[int, int], room: int, taken: int, cells: int) -> None:
    rooms[room] -= cells
    rooms[room - taken] = rooms.get(room - taken, 0) + cells
