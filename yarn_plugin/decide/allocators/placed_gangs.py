"""The gangs that have leases, and what is asked of them at every call: kept up to date with each change, so that a call
costs what it changes and not what runs."""

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.model.share import LeaseClass


@dataclass(frozen=True, slots=True)
class Placed:
    """A gang with leases. `keys`: of its pods' leases, by slot; None: that pod has none any more. `kind`: the class of
    its leases, as the ledger knows it. `given_back`: slots whose pods have ended by themselves. `spared_at`: when its
    eviction was last cancelled."""

    claim: ClaimKey
    keys: tuple[str | None, ...]
    kind: LeaseClass
    is_evicted: bool = False
    given_back: frozenset[int] = frozenset()
    spared_at: float | None = None


class PlacedGangs(MutableMapping[str, Placed]):
    """By the gang's name, in the order in which they were placed.

    `by_key`: the gang of each lease. `claims`: those that have leases. `evicted`, `low`, `incomplete`: the gangs that
    are evicted, are opportunistic as the ledger knows it, have pods without a lease.
    """

    def __init__(self, placed: Mapping[str, Placed]) -> None:
        self._gangs: dict[str, Placed] = {}
        self._frozen: Mapping[str, Placed] | None = None
        self.by_key: dict[str, str] = {}
        self.claims: set[ClaimKey] = set()
        self.evicted: set[str] = set()
        self.low: set[str] = set()
        self.incomplete: set[str] = set()
        for name, gang in placed.items():
            self[name] = gang
        self._frozen = placed

    def __getitem__(self, name: str) -> Placed:
        return self._gangs[name]

    def __setitem__(self, name: str, gang: Placed) -> None:
        if (before := self._gangs.get(name)) is not None:
            self._leave_out(name, before)
        self._gangs[name] = gang
        self._frozen = None
        self.claims.add(gang.claim)
        for key in gang.keys:
            if key is not None:
                self.by_key[key] = name
        if gang.is_evicted:
            self.evicted.add(name)
        if gang.kind == "opportunistic":
            self.low.add(name)
        if None in gang.keys:
            self.incomplete.add(name)

    def __delitem__(self, name: str) -> None:
        self._leave_out(name, self._gangs.pop(name))
        self._frozen = None

    def __contains__(self, name: object) -> bool:
        return name in self._gangs

    def __iter__(self) -> Iterator[str]:
        return iter(self._gangs)

    def __len__(self) -> int:
        return len(self._gangs)

    def in_order(self, names: Collection[str]) -> list[str]:
        """Those of these gangs that have leases, in the order in which they were placed."""
        return [name for name in self._gangs if name in names] if names else []

    def frozen(self) -> Mapping[str, Placed]:
        """The same as a value, which later changes leave as it is."""
        if self._frozen is None:
            self._frozen = dict(self._gangs)
        return self._frozen

    def _leave_out(self, name: str, gang: Placed) -> None:
        self.claims.discard(gang.claim)
        for key in gang.keys:
            if key is not None:
                del self.by_key[key]
        for names in (self.evicted, self.low, self.incomplete):
            names.discard(name)
