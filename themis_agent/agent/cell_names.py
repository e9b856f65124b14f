"""How the agent names what is leased to it: a GPU as the arbiter does, a part of a GPU, and a slot of cores.

All three are cells to everything that counts, holds and gives back. No name has the sign of another kind.
"""

_PART, _SLOT = "#", "~"


def part_of(gpu: str, job: str) -> str:
    """A job's part of a GPU."""
    return f"{gpu}{_PART}{job}"


def gpu_of(cell: str) -> str:
    """The GPU that a cell is, or is a part of."""
    return cell.partition(_PART)[0]


def job_of(cell: str) -> str:
    """The job to which a part of a GPU is leased; "": the cell is no part."""
    return cell.partition(_PART)[2]


def slot_name(node: str, lease: str) -> str:
    """A slot of cores: the arbiter has no names for the slots of a node. Ids of leases have a # themselves."""
    return f"{node}{_SLOT}{lease.replace(_PART, '.')}"


def is_slot(cell: str) -> bool:
    """Whether a cell is a slot of cores."""
    return _SLOT in cell
