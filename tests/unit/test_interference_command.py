"""`themis-agent interference`: kinds of training are measured, pairs predicted and shown."""

import json
import random

import pytest
from click.testing import CliRunner

from themis_agent.cli import cli
from themis_agent.interference.kinds import read_kinds
from themis_agent.interference.measuring import EndedError
from yarn_plugin.errors import BadInputError
from yarn_plugin.sharing import Interference, Pair, Profile
from yarn_plugin.sharing.file import read_interference, write_interference
from yarn_plugin.sharing.prediction import over_splits, with_predictions
from yarn_plugin.toml_files import FileError

PRINTS = "import time\nfor step in range(10**6): print(f'step {step} loss 0.5', flush=True); time.sleep(0.01)"
REPORTS = "import time, themis_agent.trial as t\nfor step in range(10**6): t.report(step, 0.5); time.sleep(0.02)"
FAILS_BESIDE = (
    "import os, sys, time\n"
    "try: os.mkdir('in-use')\n"
    "except OSError: sys.exit('out of memory')\n"
    "import atexit, signal; atexit.register(os.rmdir, 'in-use')\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n" + PRINTS
)


def kinds_file(folder, **commands):
    lines = [f"[kinds.{name}]\ncommand = ['python', '-c', {json.dumps(code)}]\n" for name, code in commands.items()]
    (folder / "kinds.toml").write_text("\n".join(lines))
    return folder / "kinds.toml"


def run(*words):
    result = CliRunner().invoke(cli, ["interference", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def measure(folder, **commands):
    times = ("--seconds", "0.5", "--warm-up", "0", "--core", "0")
    return run("measure", kinds_file(folder, **commands), "--out", folder / "pairs.json", *times)


def test_kinds_are_measured_alone_and_in_pairs_and_nothing_twice(tmp_path):
    assert measure(tmp_path, prints=PRINTS, reports=REPORTS).exit_code == 0
    known = read_interference("pairs", tmp_path / "pairs.json")
    assert set(known.slowdowns()) == {(a, b) for a in ("prints", "reports") for b in ("prints", "reports")}
    assert known.kinds["reports"].numbers["log_steps_per_s"] <= 4.0, "at most 50 steps a second"
    before = (tmp_path / "pairs.json").read_bytes()
    assert "beside" not in measure(tmp_path, prints=PRINTS, reports=REPORTS).output
    assert (tmp_path / "pairs.json").read_bytes() == before


def test_a_pair_that_fails_may_not_share(tmp_path):
    result = measure(tmp_path, large=FAILS_BESIDE)
    assert "large beside large: may not share: large: ended with code 1 before it was measured: out of memory" in (
        " ".join(result.output.split())
    )
    assert read_interference("pairs", tmp_path / "pairs.json").slowdowns() == {}


def test_a_kind_that_fails_alone_is_an_error_that_says_why(tmp_path):
    with pytest.raises(EndedError, match=r"\Abad: ended with code 1 before it was measured: no data\Z"):
        measure(tmp_path, bad="raise SystemExit('no data')")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "kinds"),
        ("[kinds.a]\n", r"kinds\.a\.command"),
        ("[kinds.a]\ncommand = 'x'\nnumbers = { size = 'large' }\n", r"kinds\.a\.numbers\.size"),
    ],
)
def test_a_wrong_file_of_kinds_is_refused_in_one_line(tmp_path, text, said):
    (tmp_path / "kinds.toml").write_text(text)
    with pytest.raises(FileError, match=rf"\A[^\n]*{said}[^\n]*\Z"):
        read_kinds(tmp_path / "kinds.toml")


def test_slowdowns_are_shown(tmp_path):
    pairs = (Pair("a", "a", 0.1), Pair("a", "b", 0.5), Pair("b", "a", 0.0))
    write_interference(tmp_path / "pairs.json", Interference({"a": Profile(), "b": Profile()}, pairs))
    result = run("show", tmp_path / "pairs.json")
    words = result.output.split()
    assert {"10%", "50%", "0%", "-"} <= set(words)
    assert "1 of 3 pairs slow each other down by at most 20%" in " ".join(words)


def of_sizes(count):
    """Kinds that slow others down by their size."""
    rng = random.Random(1)
    sizes = {f"k{number:02}": rng.random() * 0.4 for number in range(count)}
    kinds = {name: Profile({"size": size}, "cnn") for name, size in sizes.items()}
    return Interference(kinds, tuple(Pair(a, b, sizes[b]) for a in sizes for b in sizes if (a, b) != ("k00", "k01")))


def test_predictions_are_judged_over_splits():
    found = over_splits(of_sizes(12), splits=3, levels=(0.5, 0.8))
    assert set(found.admissions) == {0.5, 0.8}
    assert found.admissions[0.5].admitted > 0
    assert found.admissions[0.5].violating_fraction <= 0.5
    assert sum(found.chosen.values()) == 3
    assert min(found.seen.values()) < 0.02
    assert min(found.unseen.values()) < 0.05, "others of its family are known"


def test_pairs_that_are_predicted_to_share_well_are_added(tmp_path):
    known = of_sizes(12)
    write_interference(tmp_path / "pairs.json", known)
    limit = max(known.slowdowns().values()) + 0.1
    result = run("fit", tmp_path / "pairs.json", "--splits", 1, "--max-slowdown", limit, "--confidence", 0.8,
                 "--out", tmp_path / "all.json")  # fmt: skip
    assert result.exit_code == 0
    assert "1 slowdowns are predicted" in " ".join(result.output.split())
    added = read_interference("all", tmp_path / "all.json").slowdowns()
    assert added.keys() - known.slowdowns().keys() == {("k00", "k01")}
    assert with_predictions(known, 0.0, 0.8) == known, "none is admitted"


def test_too_few_pairs_are_refused_in_one_line(tmp_path):
    write_interference(tmp_path / "pairs.json", Interference({"a": Profile()}, (Pair("a", "a", 0.1),)))
    with pytest.raises(BadInputError, match="must have more pairs of kinds"):
        run("fit", tmp_path / "pairs.json")
