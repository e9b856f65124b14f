"""A controller's view of its pool: a plain value, which tests and hosts can create too."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from yarn_plugin.model.causes import Causes
from yarn_plugin.model.cluster import Use
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import Topology

NOTHING_HAPPENED = Causes(())


@dataclass(frozen=True, slots=True)
class View:
    """A pool at one moment.

    `seq` and `causes`: the number of the current input, and what happened; ignored when views are compared.
    `capacity`: the resources to divide. `topology`: the cells, including broken ones. `claims`: in order of arrival.
    `use`: the use per node of each application, for pools that lease cells. `node_used`: what all containers use of
    each node with GPUs, also those of other pools, by the node's id in YARN. `waiting`: up to two YARN applications
    in the pool that wait for containers. `weights`: the known weights of the pool's leaf queues in YARN. `static`:
    the queues that YARN's configuration defines, which are never written; None until they were read. `steering`: this
    arbiter may act on YARN now. `looked`: YARN was polled since then, or since the arbiter started. `superseded`: the
    address of another arbiter that controls the pool now; None: this one does. It is the last view that a controller
    is given, until this arbiter controls the pool again.
    """

    seq: int = 0
    causes: Causes = NOTHING_HAPPENED
    capacity: Resources = field(default_factory=Resources)
    topology: Topology = field(default_factory=Topology)
    claims: tuple[Claim, ...] = ()
    use: tuple[Use, ...] = ()
    node_used: Mapping[str, Resources] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    static: tuple[str, ...] | None = None
    steering: bool = False
    looked: bool = True
    superseded: str | None = None

    def only(self, parts: frozenset[str]) -> "View":
        """The view restricted to these parts."""
        return replace(self, **{name: _EMPTY[name] for name in PARTS - parts})

    def is_like(self, other: "View") -> bool:
        """Whether its parts are the same objects: then they are equal. It may be that they are equal otherwise."""
        return all(getattr(self, name) is getattr(other, name) for name in PARTS)

    def timeless(self) -> "View":
        """The view without `seq` and `causes`, for comparison."""
        return replace(self, seq=0, causes=NOTHING_HAPPENED)


PARTS = frozenset(one.name for one in fields(View)) - {"seq", "causes"}
"""The parts that a controller can declare in `reads`."""

_EMPTY = {one.name: getattr(View(), one.name) for one in fields(View)}
