"""A round in plain sentences, and what each feature of the record means. Pure."""

from collections.abc import Sequence

from tpcds.demo.searches.record import Award, Bid, Round
from tpcds.demo.searches.told import NO_PAYMENT, Told, is_payment, part
from yarn_plugin.quantities import count, number

OPENED = {
    "arrival": "a search arrived",
    "revised": "a search changed its demand",
    "lease-end": "leases ended",
    "app-ended": "a search ended",
    "nodes": "the nodes changed",
    "released": "GPUs were given back",
    "retry": "nothing was leased",
    "room": "there was room again",
}
"""What opened a round."""


def opened(one: Round) -> str:
    """What opened a round, in words."""
    return ", ".join(OPENED.get(name, name) for name in one.opened_by)


def explained(told: Told, auction: Round) -> str:
    """A round: who was offered what, and what became of it."""
    if auction.error is not None:
        return f"No result: {auction.error}. Holders keep what they hold."
    if not auction.offered_to:
        return f"{count(auction.gpus, 'GPU')}: offered to nobody."
    to = _listed([told.name(app) for app in auction.offered_to])
    known = dict.fromkeys(app for app, _ in (*auction.rhos, *auction.leftovers))
    others = [told.name(app) for app in known if app not in auction.offered_to]
    besides = f"; {_listed(others)} {'is a bystander' if len(others) == 1 else 'are bystanders'}" if others else ""
    sentences = [f"{count(auction.gpus, 'GPU')} offered to {to}{besides}."]
    sentences += [_bid(told, bid) for bid in auction.bids]
    silent = [told.name(app) for app in auction.offered_to if app not in {bid.app for bid in auction.bids}]
    sentences += [f"{_listed(silent)} did not answer in time."] if silent else []
    sentences += [_award(told, award) for award in auction.awards if award.won]
    dealt = _amounts(told, auction.leftovers)
    sentences += [f"Nobody won, or kept, the rest; by chance it goes to bystanders: {dealt}."] if dealt else []
    kept = _amounts(told, auction.kept_unwanted)
    sentences += [f"What nobody else wants stays with its holder: {kept}."] if kept else []
    idle = sum(gpus for _, gpus in auction.idle)
    sentences += [f"{count(idle, 'GPU')} idle: {_listed([reason for reason, _ in auction.idle])}."] if idle else []
    return " ".join(sentences)


def rho_text(rho: float | None) -> str:
    """A finish-time fairness; None: no progress."""
    return "unbounded" if rho is None else number(rho)


def _bid(told: Told, bid: Bid) -> str:
    if bid.best_rho is None:
        return f"{told.name(bid.app)} can use none of them."
    return (
        f"{told.name(bid.app)} bids: rho {rho_text(bid.rho)} without them, {number(bid.best_rho)} with"
        f" {count(bid.best_gpus, 'GPU')} ({count(bid.rows, 'row')})."
    )


def _award(told: Told, award: Award) -> str:
    name, won = told.name(award.app), count(award.won, "GPU")
    if not is_payment(award) and award.share_min < NO_PAYMENT:
        # The solver stops when the whole GPUs to keep are decided.
        return f"{name} wins {won} and keeps all, rounded to whole GPUs: c is between {part(award, 'and')}."
    if not is_payment(award):
        return f"{name} wins {won} and keeps them: its bid costs the others nothing (c = {part(award)})."
    kept = "keeps all, rounded to whole GPUs" if award.kept == award.won else f"keeps {award.kept}"
    return f"{name} wins {won} and {kept}: c = {part(award)}, what its bid costs the others."


def _amounts(told: Told, amounts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{told.name(app)} {gpus}" for app, gpus in amounts)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
