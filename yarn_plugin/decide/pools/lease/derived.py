"""What follows from the topology and the use that a controller sees, kept as long as they are the same objects."""

from yarn_plugin.decide.jobs import by_application
from yarn_plugin.decide.leases.handover import InUse, gpus_in_use
from yarn_plugin.decide.mechanisms.partial_allocation import Offers
from yarn_plugin.decide.pools.lease.described import Descriptions
from yarn_plugin.decide.pools.lease.inventory import Inventory, inventory
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.cluster import Use
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import Topology


class Inventories:
    """The last inventory of each of some settings."""

    def __init__(self) -> None:
        self._known: dict[LeaseSettings, tuple[Topology, Inventory]] = {}

    def of(self, topology: Topology, settings: LeaseSettings) -> Inventory:
        """The usable GPUs of a topology."""
        known = self._known.get(settings)
        if known is None or known[0] is not topology:
            known = self._known[settings] = topology, inventory(topology, settings)
        return known[1]


class Derived:
    """Owned by one controller. `descriptions`: what applications have said. `offers`: what bids are checked against."""

    def __init__(self) -> None:
        self.inventories = Inventories()
        self.descriptions = Descriptions()
        self.offers = Offers()
        self._claims: tuple[tuple[Claim, ...], dict[str, Claim]] = (), {}
        self._in_use: tuple[tuple[Use, ...], Topology, InUse] = (), Topology(), {}

    def claims(self, view: View) -> dict[str, Claim]:
        """The claims by application, those of its jobs as one; not to be changed."""
        if self._claims[0] is not view.claims:
            self._claims = view.claims, {claim.app: claim for claim in by_application(view.claims, (GPU,))}
        return self._claims[1]

    def in_use(self, view: View) -> InUse:
        """The GPUs in use; not to be changed."""
        use, topology, known = self._in_use
        if use is not view.use or topology is not view.topology:
            known = gpus_in_use(view.use, view.topology)
            self._in_use = view.use, view.topology, known
        return known
