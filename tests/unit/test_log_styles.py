"""Logs that libraries really wrote (tests/log_styles): read as their callbacks saw the values; from 20, nothing is."""

import json
from pathlib import Path

import pytest

from themis_agent.trial.logs import Lines
from themis_agent.trial.reading.reader import LogReader

LOGS = Path(__file__).parents[1] / "log_styles" / "logs"
STYLES = sorted(path.stem for path in LOGS.glob("*.log"))
PRINTED = 6e-3
"""Values are printed with few digits."""


def read(style, chunk):
    """The truth, and what is read when the log comes in pieces of so many bytes."""
    truth = json.loads((LOGS / f"{style}.json").read_text())
    data, lines, reader = (LOGS / f"{style}.log").read_bytes(), Lines(), LogReader(truth["metric"])
    found = []
    for start in range(0, len(data), chunk):
        found += [one for line in lines.cut(data[start : start + chunk]) for one in reader.read(line)]
    found += [one for line in lines.end() for one in reader.read(line)] + [*reader.release(has_ended=True)]
    return truth, reader, [(one.step, one.value) for one in found if one.value is not None]


def test_there_are_enough_log_styles():
    nothing = [style for style in STYLES if style.startswith("no_")]
    assert len(nothing) >= 20
    assert len(STYLES) - len(nothing) >= 25


@pytest.mark.parametrize("style", STYLES)
def test_a_log_is_read_as_its_callbacks_saw_it(style):
    truth, reader, found = read(style, 65536)
    assert read(style, 7)[2] == found
    if truth["steps"] is None:
        assert (found, reader.source) == ([], None)
        assert truth["metric"] in reader.nothing_read()
        return
    expected = [(step, pytest.approx(value, PRINTED, PRINTED)) for step, value in truth["values"]]
    assert reader.source.steps == truth["steps"]
    assert found[-1] == expected[-1]
    if truth["shown"] == "each":
        assert found == expected
    else:
        steps = [step for step, _ in found]
        assert steps == sorted(set(steps))
        values = [value for _, value in expected]
        assert all(value in values for _, value in found)
