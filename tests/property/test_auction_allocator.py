"""The auction as an allocator decides as the lease controller does, over random histories: the same questions, offers,
rounds and leases, at the same times.

Left out: results later than `decide_s`, from when the ledger counts the grace period; and applications that use more
than they lease, of whom the ledger learns one step later that they have vacated.
"""

from hypothesis import Phase, given, settings

from tests.property.test_lease_histories import History, steps
from tests.toys.registry import TOYS
from tests.toys.stage import sent
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.pools.commands import Accept, Ask, Grant, Hold, LeaseEnded, Offer, Renew, Revoke
from yarn_plugin.drive.replay import rerun_records


def story(world):
    """What was decided when, without what names commands and leases."""
    gpus_of, found = {}, []
    for one in world.stage.decided:
        now = []
        for message in sent([one]):
            match message:
                case Ask(_, app, question, by):
                    now.append(("ask", app, question, by))
                case Offer(_, app, offer, by):
                    now.append(("offer", app, offer, by))
                case Grant(_, app, leases):
                    for lease in leases:
                        gpus_of[lease.id] = tuple(holding.cell for holding in lease.holdings)
                        now.append(("grant", app, gpus_of[lease.id], lease.until))
                case Renew(_, app, lease, until):
                    now.append(("renew", app, gpus_of[lease], until))
                case Revoke(_, app, lease, by, _, cells):
                    now.append(("revoke", app, cells or gpus_of[lease], by))
                case LeaseEnded(_, app, lease, cells, cause):
                    now.append(("ended", app, cells or gpus_of[lease], cause.kind))
                    gpus_of[lease] = tuple(gpu for gpu in gpus_of[lease] if cells and gpu not in cells)
                case Hold(_, app, cause):
                    now.append(("hold", app, cause))
                case Accept(_, app):
                    now.append(("accept", app))
        now += [("round", command.cause) for command in one.commands if isinstance(command, RecordRound)]
        found += [(one.at, *item) for item in sorted(now, key=repr)]
    return found


@settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(steps)
def test_the_auction_on_the_ledger_decides_as_the_lease_controller(played):
    old, new = History(policy="themis"), History(is_ledger=True)
    for history in (old, new):
        for name, *values in played:
            if name not in ("run", "solver"):
                getattr(history, name)(*values)
        history.wait(150.0)
        assert history.world.stage.pool_state().failure is None
    assert story(new.world) == story(old.world)
    assert rerun_records(list(new.world.stage.journal.read()), TOYS).first_difference() is None
