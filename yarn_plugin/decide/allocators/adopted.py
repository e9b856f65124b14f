"""How the ledger and the auction take over a pool from the lease controller of earlier versions.

Applications do not notice: leases, ids, open questions and what is known of finish-time fairness stay.
"""

from dataclasses import replace

from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.decide.allocators.ledger_turn import key_of
from yarn_plugin.decide.allocators.plan import Holding
from yarn_plugin.decide.allocators.seen import Leased
from yarn_plugin.decide.leases import losses
from yarn_plugin.decide.leases.claims import without_use
from yarn_plugin.decide.leases.state import Entry, Ledger, Problem, Question
from yarn_plugin.decide.pools.commands import Ask, Offer, Revoke, Solve
from yarn_plugin.decide.pools.lease.settings import THEMIS
from yarn_plugin.decide.pools.lease.state import Held, LeaseState
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.causes import LeaseWon


def adopt(state: LeaseState, seen: View, cells: Cells, settings: AuctionSettings) -> tuple[Ledger, LeaseState]:
    """The ledger of a lease controller's state, and the state of the auction.

    Args:
        seen: the view of the last call of the lease controller.
        cells: the cells of the pool in that view.
        settings: of the auction.
    """
    claims = tuple([without_use(claim) for claim in seen.claims if claim.app in state.members])
    claim_of: dict[str, ClaimKey] = {}
    for claim in claims:
        claim_of.setdefault(claim.app, (claim.app, claim.job))
    keys = {id: key_of(THEMIS, int(id.rpartition("#")[2])) for id in state.leases}
    entries = {keys[id]: _entry(held, keys[id], claim_of[held.lease.app], state) for id, held in state.leases.items()}
    open_now = {id: command for id, command in state.open.items() if not isinstance(command, Revoke)}
    waits = {Ask: settings.estimate_s, Offer: settings.bid_s}
    ledger = Ledger(
        state.counter,
        has_begun=True,
        leases=entries,
        claims=claims,
        nodes=losses.known_nodes(cells),
        asked={id: Question(one, waits[type(one)]) for id, one in open_now.items() if isinstance(one, Ask | Offer)},
        problems={id: Problem(id, one) for id, one in open_now.items() if isinstance(one, Solve)},
        excess=state.excess,
        crowded=tuple(sorted(state.crowded)),
    )
    now = state.round
    rounds = replace(
        state,
        leases={keys[id]: _held(held, keys[id]) for id, held in state.leases.items()},
        round=None if now is None else replace(now, ending=tuple([keys[id] for id in now.ending if id in keys])),
        open=open_now,
        excess={},
    )
    return ledger, rounds


def _entry(held: Held, key: str, claim: ClaimKey, state: LeaseState) -> Entry:
    lease, revoke = held.lease, state.open.get(held.revoke or "")
    assert revoke is None or isinstance(revoke, Revoke)
    leased = Leased(
        key,
        claim,
        tuple([Holding(gpu) for gpu in held.gpus]),
        until=lease.until,
        note=f"round {held.round}: {held.how}",
        job=lease.job,
        placed_at=held.won_at,
        started_at=held.started_at,
        leaving=held.leaving,
        by=held.by,
        won=LeaseWon(held.round, len(held.gpus), held.how),
    )
    return Entry(
        leased,
        lease.id,
        revoke=revoke,
        revoked_at=held.revoked_at,
        lists_tell=held.lists_tell,
        released=held.released,
        is_placed=held.is_placed,
        listed_at=held.listed_at,
    )


def _held(held: Held, key: str) -> Held:
    """A lease as the auction knows it; its revocation is the ledger's."""
    return replace(held, lease=replace(held.lease, id=key), revoke=None)
