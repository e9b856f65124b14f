"""Physical and virtual cells: two forests of the same shapes, bound to each other where virtual cells are used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang
    from yarn_plugin.decide.mechanisms.buddy_cells.node_view import Place
    from yarn_plugin.decide.mechanisms.buddy_cells.openings import Openings
    from yarn_plugin.decide.mechanisms.buddy_cells.specification import Chain

FREE = -2
"""The priority of a leaf that nobody holds."""

OPPORTUNISTIC = -1
MAX_PRIORITY = 1000


class PhysicalCell:
    """A piece of the cluster.

    `used`: leaves that anybody holds; `low`: of those, the opportunistic ones. `bound`: the virtual cell that it
    serves. `slot`: its position in the free list of its level, -1 outside. `split`: its children, not it, are free or
    bound. A leaf has a `priority`, a `holder` (a gang that runs there) and a `reserver` (a gang that preempts there).
    """

    __slots__ = (
        *(
            "address",
            "bad",
            "bound",
            "chain",
            "children",
            "holder",
            "leaves",
            "level",
            "low",
            "node",
            "number",
            "openings",
        ),
        *("parent", "pinned", "place", "priority", "rank", "reserver", "slot", "split", "used"),
    )

    def __init__(self, chain: "Chain", level: int, parent: "PhysicalCell | None", address: str, number: int) -> None:
        self.chain, self.level, self.parent, self.address = chain, level, parent, address
        self.number = number
        """Its position among the cells of its chain and level, in configuration order."""
        self.rank = 0
        """Its position among its siblings."""
        self.children: tuple[PhysicalCell, ...] = ()
        self.leaves: tuple[PhysicalCell, ...] = ()
        """Its leaves in tree order, at node level and below only."""
        self.node: PhysicalCell | None = None
        """The node that it is or lies in."""
        self.pinned = ""
        self.bound: VirtualCell | None = None
        self.used = self.low = 0
        self.openings: Openings | None = None
        self.slot = -1
        self.split = False
        self.bad = 0
        """Bad nodes in it; of a cell in a node, whether the node is bad."""
        self.place: Place | None = None
        self.priority = FREE
        self.holder: Gang | None = None
        self.reserver: Gang | None = None

    @property
    def size(self) -> int:
        """How many leaves it has."""
        return self.chain.sizes[self.level - 1]

    @property
    def path(self) -> str:
        """Its addresses from the top, such as `0/r0n1/3`."""
        return self.address if self.parent is None else f"{self.parent.path}/{self.address}"

    @property
    def type(self) -> str:
        """The name of its type."""
        return self.chain.types[self.level - 1]

    def __repr__(self) -> str:
        return f"<{self.type} {self.path}>"


class VirtualCell:
    """A cell of a virtual cluster. It is bound to a physical cell while a leaf in it is held, and always if pinned.

    `used`: held leaves; `profile`, of a node: how many at each priority. `root`: the cell of the quota that it is or
    lies in.
    """

    __slots__ = (
        *(
            "bound",
            "chain",
            "children",
            "cluster",
            "leaves",
            "level",
            "number",
            "parent",
            "pinned",
            "place",
            "priority",
        ),
        *("profile", "root", "used"),
    )

    def __init__(self, chain: "Chain", level: int, parent: "VirtualCell | None", cluster: str, number: int) -> None:
        self.chain, self.level, self.parent, self.cluster, self.number = chain, level, parent, cluster, number
        self.root: VirtualCell = self if parent is None else parent.root
        self.children: tuple[VirtualCell, ...] = ()
        self.leaves: tuple[VirtualCell, ...] = ()
        self.pinned = ""
        self.bound: PhysicalCell | None = None
        self.used = 0
        self.profile: dict[int, int] = {}
        self.place: Place | None = None
        self.priority = FREE

    @property
    def size(self) -> int:
        """How many leaves it has."""
        return self.chain.sizes[self.level - 1]

    @property
    def type(self) -> str:
        """The name of its type."""
        return self.chain.types[self.level - 1]

    @property
    def highest_priority(self) -> int:
        """The highest priority at which a leaf in it is held; `FREE` if none is."""
        if self.level == 1:
            return self.priority
        return max(child.highest_priority for child in self.children) if self.used else FREE

    def __repr__(self) -> str:
        return f"<{self.cluster} {self.chain.name} {self.type} {self.number}>"
