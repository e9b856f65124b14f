"""Planned communication of real torch jobs over gloo, in two and four processes on this machine."""

import importlib.util
import json
import os
import socket
import subprocess
import sys

import pytest

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


def outputs(started, timeout_s=300):
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


@pytest.mark.parametrize("processes", [2, 4])
def test_every_division_of_every_operation_has_the_effect_of_the_operation(processes):
    assert run("motifs", processes=processes)[0] == "ok\n"


PROGRAMS = "ddp,fsdp2,all_to_all,functional_collectives,compiled"


@pytest.mark.parametrize("detail", ["OFF", "DETAIL"])
def test_parameters_are_those_of_gloo_bit_by_bit(detail):
    for out in run("programs", PROGRAMS, 3, TORCH_DISTRIBUTED_DEBUG=detail):
        results = json.loads(out.splitlines()[-1])
        print(results)
        for name, one in results.items():
            assert one["planned_iterations"] > 5, (name, one)
            assert one["traced_equal"], (name, one)
            assert one["planned_equal"], (name, one)
            assert one["motifs"] > one["operations"], (name, one)


def test_parameters_of_four_processes_are_close_where_chunks_move_and_equal_where_they_do_not():
    for segments in (1, 3):
        for out in run("programs", "ddp,all_to_all", segments, processes=4):
            for name, one in json.loads(out.splitlines()[-1]).items():
                assert one["planned_iterations"] > 5, (name, one)
                assert one["traced_equal"], (name, one)
                assert one["difference"] < 1e-6, (name, one)
                assert one["planned_equal"] or segments > 1, (name, one)
