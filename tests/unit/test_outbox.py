"""What an agent still has to tell the arbiter."""

from themis_agent.agent.commands import KillTrial, ReleaseGpus, SendBid, SendEstimate
from themis_agent.yarn.outbox import Outbox
from yarn_plugin.model.auction import Bid, Estimate

ESTIMATE, BID = SendEstimate("ask-1", Estimate(1, 2.0)), SendBid("offer-1", Bid(1, 2.0))
RELEASE = ReleaseGpus("lease-1", ("node/0",))


def sent(outbox, now=0.0):
    """All that would be sent now."""
    found = []
    while (one := outbox.next(now)) is not None:
        found.append(one)
        outbox.done(one)
    return found


def test_messages_leave_in_their_order_and_stay_until_they_are_taken():
    outbox = Outbox()
    assert all(map(outbox.put, (ESTIMATE, RELEASE, BID)))
    assert outbox.next(0.0) is outbox.next(0.0) is ESTIMATE
    assert sent(outbox) == [ESTIMATE, RELEASE, BID]
    assert sent(outbox) == []


def test_what_is_not_for_the_arbiter_is_left():
    assert not Outbox().put(KillTrial("trial-00000", 1))


def test_answers_that_are_too_late_are_dropped_and_gpus_are_given_back_however_late():
    outbox = Outbox()
    outbox.expect("ask-1", 10.0)
    outbox.expect("offer-1", 20.0)
    for one in (ESTIMATE, BID, RELEASE):
        outbox.put(one)
    assert sent(outbox, 15.0) == [BID, RELEASE]
    assert outbox.late == [ESTIMATE]


def test_a_question_that_is_asked_again_has_one_answer():
    outbox, again = Outbox(), SendEstimate("ask-1", Estimate(1, 3.0))
    outbox.expect("ask-1", 10.0)
    outbox.put(ESTIMATE)
    outbox.expect("ask-1", 30.0)
    outbox.put(again)
    assert sent(outbox, 20.0) == [again]
