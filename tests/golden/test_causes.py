"""Every cause, rendered: causes.json holds the sentence and the JSON object of each, a line for each example.

`pytest --rewrite-golden` writes down what they are now; review the difference.
"""

import json
from pathlib import Path
from typing import get_args

import pytest
from pydantic import TypeAdapter

from yarn_plugin.api.causes import as_json, text
from yarn_plugin.model import causes as cause
from yarn_plugin.model.causes import (
    TAGS,
    Cause,
    Causes,
    Ending,
    Explanation,
    Happening,
    ShareCause,
    UserShare,
    WeightedShare,
)
from yarn_plugin.model.resources import Resources

GOLDEN = Path(__file__).with_name("causes.json")
YARN_APP = "application_1_0001"
HALF = Resources.of({"memory-mb": 4096, "vcores": 4})
ALL = Resources.of({"memory-mb": 8192, "vcores": 8, "yarn.io/gpu": 2})
GUARANTEE = WeightedShare(1.0, 2.0, 2, 0.5, 0.5, "guarantee")
ARRIVED = cause.AppArrived("app_17")

EXAMPLES = (
    ARRIVED,
    cause.AppEnded("app_17"),
    cause.AppMatched("app_17", YARN_APP),
    cause.AppRevised("app_17"),
    cause.JobsChanged("app_17"),
    cause.AppVacated("app_17"),
    cause.AppQuiet(YARN_APP),
    cause.NotSubmitted("app_17", 120.0),
    cause.PoolGone("app_17", "sql"),
    cause.OtherUser("app_17", YARN_APP),
    cause.NodeLost("127.0.1.2"),
    cause.NodeJoined("127.0.1.2"),
    cause.NodeChanged("127.0.1.2"),
    cause.QueueTreeChanged(),
    cause.ForeignWeights(2),
    cause.ArbiterStarted(),
    cause.ManagerAnswers(),
    cause.ManagerPolled(),
    cause.WeightsRead(),
    cause.WeightsApplied(),
    cause.WeightsRejected(),
    cause.GraceOver(),
    cause.DemandsChanged(),
    Causes.of([ARRIVED, cause.NodeLost("127.0.1.2"), cause.QueueTreeChanged()]),
    Causes.of([ARRIVED, cause.AppEnded("app_3"), cause.QueueTreeChanged(), cause.NodeLost("127.0.1.2")]),
    cause.UseAsked("app_17"),
    cause.ControllerFailed("gpu", "ZeroDivisionError: division by zero"),
    cause.ControllerResumed("gpu"),
    cause.ControllerNotified("gpu", "cancel_revoke"),
    GUARANTEE,
    WeightedShare(1.0, 5.5, 3, 1 / 5.5, 0.48, "others-want-less"),
    WeightedShare(2.5, 5.5, 3, 2.5 / 5.5, 0.25, "own-demand"),
    UserShare(2, 1.0, 1.0, 1, 0.5, 0.5, "guarantee"),
    UserShare(3, 2.5, 5.5, 3, 2.5 / 16.5, 0.48, "others-want-less"),
    UserShare(1, 1.0, 4.0, 2, 0.25, 0.125, "own-demand"),
    ShareCause(Causes((ARRIVED,)), 2, GUARANTEE),
    ShareCause(Causes((cause.AppEnded("app_17"),)), 1, cause.LegacyText("all that there is")),
    cause.OverShare("app_4", ALL, HALF, 15.0),
    cause.Preempted("app_4", HALF),
    cause.RegisteredBy("ann", "root.sql.nightly_4_5"),
    cause.NoLongerKnown("app_17"),
    cause.LeaseRound(
        *(7, "themis", ("lease-end", "arrival"), 8, (("app_17", None), ("app_4", 1.25)), ("app_17",)),
        *((("app_17", 4),), (("app_17", 1),), (("app_4", 2),), (("not wanted", 2),), 0.0, 12),
    ),
    cause.LeaseRound(8, "themis", ("nodes",), 4, (("app_4", 1.25),), gap=0.031, won=(("app_4", 4),)),
    cause.LeaseRound(
        *(8, "themis", ("nodes",), 4, (("app_4", 1.25),), ("app_4", "app_5")),
        set_aside=(cause.BidSetAside("app_5", "ValueError: no way"),),
    ),
    cause.BidSetAside("app_5", "ValueError: no way"),
    cause.LeaseRound(10, "themis", ("lease-end",), 4, (("app_4", 1.25),), discounted=(("app_4", 0.6125),)),
    cause.LeaseRound(11, "themis", ("lease-end",), 4, (("app_5", 0.5), ("app_4", 1.25)), ahead=("app_4",)),
    cause.LeaseRound(9, "tiresias", ("retry",), 4, error="the solver's result is lost"),
    cause.LeaseWon(7, 4, "bid", 12.5),
    cause.LeaseWon(7, 1, "leftover"),
    cause.LeaseLost(7, 2),
    cause.LeaseVacated(12.5),
    cause.LeaseReleased("app_17"),
    cause.NotPlaced("n1", 4, 2, 30.0),
    cause.BeyondLease("app_17", "n1", 4, 2),
    cause.TooManyApps("app_17", "max_apps", 40.0),
    cause.PoolSuperseded("http://other.example.com:8780"),
    cause.LeasePlaced(),
    cause.LeasePlaced("in turn", 12.5),
    cause.LeaseDropped("preempted by app_3"),
    cause.LeaseReplaced(),
    cause.LeaseLapsed(),
    cause.Evicted("app_3", "urgent", "prod", 5),
    cause.CellsReconfigured(),
    cause.QuotaReduced("train", "research"),
    *(cause.RecordRefused("gpu#7", ("n1/0", "n1/1"), why) for why in get_args(cause.RefusedFor)),
    cause.LegacyText("app_17 arrived: 2 apps now (weight 1 of 2 over 2 apps guarantees 50.0%)"),
)


def test_every_cause_has_its_golden_sentence(request):
    found = [json.dumps({"text": text(one), "cause": as_json(one)}) for one in EXAMPLES]
    if request.config.getoption("--rewrite-golden"):
        GOLDEN.write_text("[\n" + ",\n".join(found) + "\n]\n")
    assert json.loads(GOLDEN.read_text()) == [json.loads(one) for one in found]


def test_there_is_an_example_of_every_cause():
    assert {type(one) for one in EXAMPLES} == set(get_args(Cause)) == set(TAGS.values())


def test_every_cause_has_a_kind_of_its_own():
    assert len(TAGS) == len(get_args(Cause))
    assert all(type(one) is TAGS[one.kind] for one in EXAMPLES)


@pytest.mark.parametrize("union", [Cause, Happening, Ending, Explanation], ids=["any", "happening", "end", "share"])
def test_each_is_read_back_as_the_same_wherever_it_may_stand(union):
    adapter = TypeAdapter(union)
    for one in EXAMPLES:
        if isinstance(one, union):
            assert adapter.validate_json(adapter.dump_json(one)) == one
            assert type(adapter.validate_python(adapter.dump_python(one, mode="json"))) is type(one)


def test_of_many_happenings_few_are_carried():
    """Every share that a cycle changes carries them: a thousand of each would be a million."""
    many = [cause.AppArrived(f"app_{number}") for number in range(1000)]
    assert Causes.of(many) == Causes((many[0], many[1]), 998)
    assert text(Causes.of(many)) == "app_0 arrived; app_1 arrived; 998 more"
