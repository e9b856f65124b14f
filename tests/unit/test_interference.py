"""Predicted slowdowns: files, the threshold of admission, and what may not be predicted."""

import json
import math

import pytest

from yarn_plugin.decide.mechanisms.interference import Interference, Pair, Profile, fit, learn, threshold
from yarn_plugin.sharing.file import read_interference, write_interference
from yarn_plugin.toml_files import FileError


def test_a_file_is_read_as_it_was_written(tmp_path):
    known = Interference({"a": Profile({"log_steps_per_s": 1.5}, "cnn"), "b": Profile()}, (Pair("a", "b", 0.25),))
    write_interference(tmp_path / "pairs.json", known)
    assert read_interference("pairs", tmp_path / "pairs.json") == known


def test_gavels_throughputs_are_read_and_failed_pairs_left_out(tmp_path):
    a, b = "('LM (batch size 5)', 1)", "('A3C', 1)"
    jobs = {a: {"null": 10.0, a: [5.0, 5.0], b: [8.0, 4.0]}, b: {"null": 4.0, a: [4.0, 8.0], b: [0.0, 0.0]}}
    (tmp_path / "gavel.json").write_text(json.dumps({"v100": jobs}))
    known = read_interference("gavel", tmp_path / "gavel.json")
    assert known.slowdowns() == {
        ("LM (batch size 5)", "LM (batch size 5)"): 1.0,
        ("LM (batch size 5)", "A3C"): 0.25,
        ("A3C", "LM (batch size 5)"): 0.0,
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "interference/1", "kinds": {}, "pairs": [{"kind": "a"}]}'])
def test_a_wrong_file_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "pairs.json").write_text(text)
    with pytest.raises(FileError, match=r"\Apairs[^\n]*\Z"):
        read_interference("pairs", tmp_path / "pairs.json")


def test_the_threshold_bounds_what_is_violating_among_the_admitted():
    scores = [(0.01 * number, False) for number in range(40)] + [(0.5, True), (0.6, True), (0.7, True)]
    assert threshold(scores, 0.05) == 0.5
    assert threshold([(0.1, False)] * 5, 0.05) == -1.0, "too few to say so"


def test_a_kind_of_a_family_that_is_not_known_is_not_predicted():
    kinds = {f"k{number}": Profile({"size": float(number)}, "cnn") for number in range(6)}
    slowdowns = {(a, b): 0.1 * int(b[1]) for a in kinds for b in kinds}
    fitted = fit({**kinds, "new": Profile({"size": 1.0}, "rnn")}, slowdowns, 0.2)
    assert fitted.predicts([("new", "k1"), ("k1", "none")]) == {}
    assert fitted.predicts([("k1", "k3")])[("k1", "k3")] == pytest.approx(0.3, abs=0.1)


def test_a_measurement_beside_several_is_divided_as_they_were_believed():
    learned = learn({}, "a", ["b", "c"], 0.6, {("a", "b"): 0.1, ("a", "c"): 0.2}, 0.0)
    assert learned["a"] == {"b": pytest.approx(0.2), "c": pytest.approx(0.4)}
    assert math.isclose(learn({}, "a", ["b"], 0.6, {("a", "b"): 0.2}, 0.5)["a"]["b"], 0.4)
