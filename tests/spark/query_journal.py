"""What every journal of a query must hold."""

from collections import Counter

from qoop.plans.plan import RESULT


def check_query_journal(records):
    """Check that each event is recorded once, in order, with one decision, and each started stage ends once."""
    assert [record["kind"] for record in records[:1]] == ["query"]
    inputs = [record for record in records if record["kind"] == "input"]
    decisions = [record for record in records if record["kind"] == "decision"]
    assert [record["seq"] for record in inputs] == list(range(2, len(inputs) + 2))
    assert [record["seq"] for record in decisions] == [record["seq"] for record in inputs]
    ended = Counter(
        str(record["event"]["stage"])
        for record in inputs
        if record["event"]["type"] in ("StageFinished", "StageCancelled", "StageFailed")
    )
    commands = [one for record in decisions for one in record["commands"]]
    # A query that runs as written is the last stage.
    started = Counter(str(one["stage"]) for one in commands if one["type"] == "StartStage")
    started.update(str([*RESULT]) for one in commands if one["type"] == "RunAsWritten")
    assert not ended - started, "a stage has ended more often than it was started"
    # A stage that no plan needs may still run when the query ends.
    unneeded = {str(stage) for one in commands if one["type"] == "Note" for stage in one["decision"]["let_finish"]}
    assert set(started - ended) <= unneeded, "a stage was started and its end was not reported"
    assert sum(one["type"] == "Finish" for one in commands) == 1
