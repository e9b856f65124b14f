"""`themis-agent communication` and its files; what a trial is told."""

import json
from pathlib import Path

import pytest

from themis_agent.app_file import read
from themis_agent.cli import cli
from themis_agent.communication.capture import Event, Seen, What
from themis_agent.communication.costs import CostTable, Curve
from themis_agent.communication.feedback import ENOUGH, FIRST, MAX_PLANS, Advice, Feedback
from themis_agent.communication.formats import Trace, dump, load, parse, save
from themis_agent.communication.iteration import Kind, Operation
from themis_agent.communication.plan import Plan
from themis_agent.communication.settings import Mode, Settings
from themis_agent.launching import environment
from yarn_plugin import console
from yarn_plugin.errors import BadInputError
from yarn_plugin.toml_files import FileError

MIB = 1 << 20
SMALL = Operation(Kind.ALL_REDUCE, 4 * MIB, "float32", 4, 2, "0")
LARGE = Operation(Kind.ALL_TO_ALL, 64 * MIB, "float32", 4, 2, "0")


def seen(number, version=0, seconds=0.4, held_s=0.0, operations=(LARGE, SMALL)):
    """Both operations are called at once; the program then computes, and waits for both."""
    events = [
        Event(What.CALL, 0.10, 0), Event(What.CALL, 0.11, 1), Event(What.BEGIN, 0.10, 0), Event(What.END, 0.20, 0),
        Event(What.COMPLETE, 0.20, 0),
        Event(What.BEGIN, 0.20, 1), Event(What.END, 0.25, 1), Event(What.COMPLETE, 0.25, 1),
        Event(What.WAIT, 0.21, 0), Event(What.GO_ON, 0.21, 0), Event(What.WAIT, 0.22, 1), Event(What.GO_ON, 0.25, 1),
    ]  # fmt: skip
    return Seen(number, seconds, operations, tuple(events), version, held_s)


def costs(slow=1.0, overlap=1.0):
    """Two channels; the second takes `slow` times as long. A MiB takes a millisecond."""
    curves = tuple(
        Curve(kind, channel, (MIB, 64 * MIB), (0.001 * factor, 0.064 * factor))
        for kind in Kind
        if kind is not Kind.OTHER
        for channel, factor in ((0, 1.0), (1, slow))
    )
    return CostTable(2, ("0", "1"), curves, 0.0001, ((1.0, overlap), (overlap, 1.0)))


@pytest.fixture
def files(tmp_path):
    trace = Trace(rank=0, ranks=2, iterations=[seen(number) for number in range(5)])
    save(trace, tmp_path / "rank-0.json")
    save(costs(), tmp_path / "costs.json")
    return tmp_path


def invoke(*words):
    return console.run(cli, "themis-agent", ["communication", *map(str, words)])


def test_plan_prints_and_writes_a_plan_that_uses_both_channels(files, capsys):
    assert invoke("plan", files / "rank-0.json", "--costs", files / "costs.json", "--out", files / "plan.json") == 0
    printed = capsys.readouterr().out
    assert "all_to_all" in printed
    assert "ms predicted" in printed
    made = load(Plan, files / "plan.json")
    assert {channel for option in made.options for channel in option.channels} == {0, 1}


def test_a_slow_channel_is_avoided(files):
    save(costs(slow=50.0), files / "slow.json")
    assert invoke("plan", files / "rank-0.json", "--costs", files / "slow.json", "--out", files / "plan.json") == 0
    assert {option.channels for option in load(Plan, files / "plan.json").options} == {(0,)}


def test_channels_that_slow_each_other_down_as_much_as_they_help_gain_nothing(files):
    predicted = []
    for overlap in (1.0, 2.0):
        save(costs(overlap=overlap), files / "costs.json")
        invoke("plan", files / "rank-0.json", "--costs", files / "costs.json", "--out", files / "plan.json")
        predicted.append(load(Plan, files / "plan.json").period_s)
    assert predicted[0] < 0.85 * predicted[1]


def test_show_writes_a_page_with_planned_and_measured_timelines(files, capsys):
    invoke("plan", files / "rank-0.json", "--costs", files / "costs.json", "--out", files / "plan.json")
    trace = load(Trace, files / "rank-0.json")
    trace.iterations += [seen(number, version=1, seconds=0.3) for number in range(5, 9)]
    save(trace, files / "rank-0.json")
    words = ("--costs", files / "costs.json", "--plan", files / "plan.json", "--out", files / "page.html")
    assert invoke("show", files / "rank-0.json", *words) == 0
    page = (files / "page.html").read_text()
    for text in ("Planned: one iteration", "Measured under the plan", "Measured in the order of the program"):
        assert text in page
    for text in ("channel 1", "all_to_all 0", "Predicted"):
        assert text in page


def test_show_without_a_plan_or_costs_has_what_was_measured(files):
    assert invoke("show", files / "rank-0.json", "--out", files / "page.html") == 0
    assert "Planned: one iteration" not in (files / "page.html").read_text()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda one: one.update(what="plan"), "what 'plan': must be 'trace'"),
        (lambda one: one.update(version=2), "version"),
        (lambda one: one["content"].pop("ranks"), "content.ranks: required"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_one_line(files, capsys, change, says):
    content = json.loads((files / "rank-0.json").read_text())
    change(content)
    (files / "rank-0.json").write_text(json.dumps(content))
    assert invoke("show", files / "rank-0.json") == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_trace_without_costs_needs_some(files, capsys):
    assert invoke("plan", files / "rank-0.json") == 2
    assert "--costs: required, as the trace has no costs" in capsys.readouterr().err


def test_files_keep_everything(files):
    trace = load(Trace, files / "rank-0.json")
    assert trace.iterations[0] == seen(0)
    assert parse(CostTable, dump(costs()), "x") == costs()
    with pytest.raises(FileError, match="x: not a file of a plan"):
        parse(Plan, "{", "x")


APP = {
    "name": "digits",
    "command": "python train.py",
    "max_steps": 9,
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}


def test_a_search_sets_its_trials_to_plan():
    assert "THEMIS_COMMUNICATION" not in environment(read(APP, "app.toml"), {})
    assert environment(read({**APP, "communication": "planned"}, "app.toml"), {})["THEMIS_COMMUNICATION"] == "planned"
    with pytest.raises(FileError, match="communication 'fast': must be 'plain' or 'planned'"):
        read({**APP, "communication": "fast"}, "app.toml")


def test_a_process_reads_what_it_is_told():
    assert Settings.from_environment({}).mode is Mode.PLAIN
    told = {
        "THEMIS_COMMUNICATION": "planned",
        "THEMIS_COMMUNICATION_CHANNELS": "eth0, eth1",
        "THEMIS_COMMUNICATION_DIR": "x",
    }
    found = Settings.from_environment(told)
    assert (found.mode, found.channels, found.folder) == (Mode.PLANNED, ("eth0", "eth1"), Path("x"))
    assert found.channel_names == ("0 eth0", "1 eth1")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("THEMIS_COMMUNICATION", "fast", "'fast': must be one of plain, traced, planned"),
        ("THEMIS_COMMUNICATION_TIMEOUT_S", "soon", "'soon': must be a number of seconds above 0"),
        ("THEMIS_COMMUNICATION_TIMEOUT_S", "0", "must be a number of seconds above 0"),
        ("THEMIS_COMMUNICATION_CHANNELS", "a,b,c,d,e,f,g,h,i", "must be at most 8 network interfaces"),
    ],
)
def test_a_bad_variable_is_named(name, value, says):
    with pytest.raises(BadInputError, match=f"{name} .*{says}"):
        Settings.from_environment({name: value})


def after(*iterations):
    feedback = Feedback()
    for one in iterations:
        feedback.note(one)
    return feedback


def rounds(first, **of):
    return [seen(first + number, **of) for number in range(ENOUGH)]


def test_a_plan_is_made_when_enough_like_iterations_were_seen():
    assert after(*rounds(FIRST)[:-1]).advice() is Advice.WAIT
    assert after(*rounds(FIRST)).advice() is Advice.PLAN
    # The first iterations do not count, and a change begins anew.
    assert after(*rounds(0)).advice() is Advice.WAIT
    assert after(*rounds(FIRST), seen(20, operations=(SMALL,))).advice() is Advice.WAIT


def test_a_plan_that_is_slower_is_withdrawn_for_good():
    feedback = after(*rounds(FIRST, seconds=0.3))
    assert feedback.advice() is Advice.PLAN
    feedback.proposed(1)
    for one in rounds(20, version=1, seconds=0.4):
        feedback.note(one)
    assert feedback.advice() is Advice.IN_ORDER
    for one in rounds(40):
        feedback.note(one)
    assert feedback.advice() is Advice.WAIT


def test_a_plan_that_holds_motifs_back_is_replaced_a_few_times():
    feedback = after(*rounds(FIRST, seconds=0.4))
    feedback.advice()
    for plans in range(1, MAX_PLANS + 1):
        feedback.proposed(plans)
        for one in rounds(20 * plans, version=plans, seconds=0.3, held_s=0.03):
            feedback.note(one)
        assert feedback.advice() is (Advice.PLAN if plans < MAX_PLANS else Advice.WAIT)
    for one in rounds(200, version=9, seconds=0.3, held_s=0.001):
        feedback.note(one)
    assert feedback.advice() is Advice.WAIT
