"""Every cause and verdict of a query, as JSON and in words: `causes/query.txt`; rewritten by `--rewrite-golden`."""

import json
from pathlib import Path
from typing import get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from qoop.plans.plan import RESULT, StageId
from qoop.replan import causes
from qoop.replan.decision import Decision
from qoop.run import wording

WORDS = Path(__file__).parent / "causes" / "query.txt"
ADAPTER = TypeAdapter(causes.Cause)
JOIN, BLOCK = StageId("qoop_result", 3), StageId("qoop_totals", 0)

CAUSES = (
    causes.PlansMade(12, 3),
    causes.PlansMade(1, 1),
    causes.NewShare(None, 4.0, "the first share is 4 slots"),
    causes.NewShare(4.0, 1.0, "app_7 arrived: 2 apps now", ("app-arrived", "node-lost")),
    causes.NewShare(None, 4.0, ""),
    causes.NewShare(4.0, 1.5, ""),
    causes.NewExecutors(32.0, 2.0),
    causes.NewExecutors(2.0, 4.0),
    causes.FinishedStage(JOIN, ("orders", "o2")),
    causes.FinishedStage(BLOCK, ()),
    causes.OutgrownStage(JOIN, ("orders", "o2"), 4e6, 1200.4),
    causes.FailedStage(JOIN, ("orders", "o2"), "cannot cast 'x' to INT"),
    causes.FailedStage(RESULT, (), "division by zero"),
    causes.LostOutput(JOIN, ("orders", "o2"), "2 of 8 partitions are gone"),
    causes.StagesChecked(),
    causes.NotPlanned(causes.UntypedCause("it has one table")),
    causes.PlannerFailed("ZeroDivisionError", "division by zero"),
    causes.Retried("an executor was lost", 1),
    causes.Stopped("stopped by the user"),
    causes.UntypedCause("a look at running stages"),
)


def decided(before, plan, seconds, slots=2.0, won_by="kept", needed=None):
    """A decision for nothing but its estimates."""
    fastest = seconds.index(min(seconds))
    fates = {"cancel": (), "let_finish": (), "reused": (), "left_behind": ()}
    return Decision(
        causes.StagesChecked(), slots, before, plan, seconds, won_by=won_by, fastest=fastest, needed=needed, **fates
    )


DECISIONS = (
    decided(None, 1, (3.0, 2.0), won_by="first"),
    decided(0, 1, (3.0, 2.0), won_by="share", needed=0.45),
    decided(1, 1, (3.0, 2.0), slots=1.0, needed=0.3),
    decided(0, 0, (3.0, 2.75), slots=1.5, needed=0.45),
    decided(0, 0, (3.0, 2.75)),
)


def test_each_kind_has_an_example():
    assert {type(one) for one in CAUSES} == set(get_args(causes.Cause))


def test_every_kind_is_distinct():
    kinds = [kind.__dataclass_fields__["kind"].default for kind in get_args(causes.Cause)]
    assert len(kinds) == len(set(kinds))
    with pytest.raises(ValidationError):
        ADAPTER.validate_python({"kind": "weather", "said": "x"})


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.kind)
def test_a_cause_comes_back_as_it_was_written(cause):
    back = ADAPTER.validate_json(ADAPTER.dump_json(cause))
    assert (type(back), back) == (type(cause), cause)


def test_words(request):
    lines = [f"{json.dumps(ADAPTER.dump_python(one, mode='json'))}\n    {wording.why(one)}" for one in CAUSES]
    lines += [f"plan {one.before} -> {one.plan}\n    {wording.verdict(one)}" for one in DECISIONS]
    found = "\n".join([*lines, ""])
    if request.config.getoption("--rewrite-golden"):
        WORDS.write_text(found)
    assert found == WORDS.read_text()


def test_a_failed_query_reports_the_original_error():
    assert wording.error_message(causes.FailedStage(RESULT, (), "division by zero")) == "division by zero"
    assert wording.error_message(causes.Stopped("stopped by the user")) == "stopped by the user"
