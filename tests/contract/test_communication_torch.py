"""Planned communication of real torch jobs over gloo, in two and four processes on this machine."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(module, *arguments, processes=2, **environment):
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    shared |= {"WORLD_SIZE": str(processes), **environment}
    return [
        subprocess.Popen(
            [sys.executable, "-m", f"tests.torch_jobs.{module}", *map(str, arguments)],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]


def outputs(started, timeout_s=480):
    """What they print. The timeout is for four processes on two cores that others use too."""
    try:
        return [one.communicate(timeout=timeout_s) for one in started]
    finally:
        for one in started:
            one.kill()


def run(module, *arguments, **options):
    started = start(module, *arguments, **options)
    found = outputs(started)
    assert [one.returncode for one in started] == [0] * len(started), found
    return [out for out, _ in found]


def test_every_division_of_every_operation_has_the_effect_of_the_operation():
    assert run("motifs", 2, 3, 4, processes=1)[0] == "2 ok\n3 ok\n4 ok\n"


PROGRAMS = "ddp,fsdp2,fsdp2_overlapped,fsdp2_accumulating,all_to_all,functional_collectives,compiled"


def compared(segments, processes, **environment):
    """What became of each program in each process."""
    (out,) = run("programs", PROGRAMS, segments, processes, processes=1, **environment)
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    print(*found, sep="\n")
    assert len(found) == processes * (PROGRAMS.count(",") + 1)
    for one in found:
        assert one["planned_iterations"] > 5, one
        assert one["traced_equal"], one
    return found


@pytest.mark.parametrize("detail", ["OFF", "DETAIL"])
def test_parameters_are_those_of_gloo_bit_by_bit(detail):
    found = compared(3, 2, TORCH_DISTRIBUTED_DEBUG=detail)
    for one in found:
        assert one["planned_equal"], one
        assert one["motifs"] > one["operations"], one
    # Its own hooks change when FSDP2 communicates, not what it learns.
    for rank in range(2):
        plain, overlapped = (
            next(one for one in found if (one["rank"], one["program"]) == (rank, name))
            for name in ("fsdp2", "fsdp2_overlapped")
        )
        assert plain["sum"] == overlapped["sum"]
        assert plain["in_flight_together"] < overlapped["in_flight_together"]


@pytest.mark.parametrize("segments", [1, 3])
def test_parameters_of_four_processes_are_close_where_chunks_move_and_equal_where_they_do_not(segments):
    for one in compared(segments, 4):
        assert one["difference"] < 1e-6, one
        assert one["planned_equal"] or segments > 1, one


@pytest.mark.parametrize("processes", [2, 4])
def test_when_one_process_goes_wrong_the_others_end_with_an_error_in_time(processes):
    words = [sys.executable, "-m", "tests.torch_jobs.faults", str(processes)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=570, check=False)
    outcomes = [json.loads(line) for line in ended.stdout.splitlines()]
    print(*outcomes, sep="\n")
    assert len(outcomes) == 12, ended.stderr
    for one in outcomes:
        if one["fault"] == "none":
            assert set(one["codes"]) == {0}, one
            continue
        assert set(one["codes"]) == {1}, one
        assert one["after_s"] <= 4 + 5, one
        assert all("Error" in last for last in one["words"]), one
        # Who finds it out ends first, and the others may see no more than that.
        # Gloo ends a process that receives more than it expects, perhaps before the operations were compared.
        if one["fault"] in ("operation", "size") and "Received data size doesn't match" not in one["own_words"]:
            assert any("different operations" in last for last in one["words"]), one


def test_no_iteration_has_mixed_plans_whoever_is_late_or_killed():
    words = [sys.executable, "-m", "tests.torch_jobs.commits", "200"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=570, check=False)
    outcomes = [json.loads(line) for line in ended.stdout.splitlines()]
    print(*outcomes, sep="\n")
    told, ends = [one for one in outcomes if "rank" in one], [one for one in outcomes if "codes" in one]
    assert [one["plans"] for one in told] == [200] * 3
    assert all(not one["refused"] for one in told)
    assert ends[0]["codes"] == [0, 0, 0], ended.stderr
    assert len(ends) == 9, ended.stderr
    for one in ends[1:]:
        killed = one["kill"][0]
        assert one["codes"] == [-9 if rank == killed else 1 for rank in range(3)], (one, ended.stderr)
        assert one["after_s"] <= 4 + 1, one


def test_the_documented_commands_work(tmp_path):
    """docs/communication.md, as a newcomer follows it."""
    page = (ROOT / "docs/communication.md").read_text()
    block = page.split("## Two processes on a laptop")[1].split("\n\n    ")[1].split("\n\n")[0]
    lines = [line.strip() for line in block.splitlines()]
    assert [line.split()[2] for line in lines] == ["measure", "trace", "plan", "show"]
    for line in [*lines, lines[1].replace("--out traces", "--out planned --plan plan.json")]:
        words = [sys.executable, "-c", "from themis_agent.cli import main; main()", *line.split()[1:]]
        ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
        print(ended.stdout)
        assert ended.returncode == 0, ended.stderr
    html = (tmp_path / "page.html").read_text()
    assert "Planned: one iteration" in html
    assert "Measured in the order of the program" in html


def test_a_planted_slow_channel_is_measured_as_slow():
    for out in run("slow_channel"):
        found = json.loads(out.splitlines()[-1])
        print(found)
        assert found["slow"] > 2 * found["fast"]
        assert found["channels"] == [[0]]
        assert found["repeated_within"] < 0.2
