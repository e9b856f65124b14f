"""`themis-agent doctor`: what a machine lacks for trials on its GPUs."""

import dataclasses
import json

import pytest
from click.testing import CliRunner

from themis_agent import machine
from themis_agent.cli import cli
from themis_agent.machine import Gpu, MachineFacts, diagnose, probe

V100 = Gpu("0", "Tesla V100", "16384 MiB", None, "Default")
ALL = MachineFacts((V100,), has_mps=True, runs_mps=True)


def with_programs(folder, **programs):
    """An environment whose PATH has these programs alone."""
    for name, text in programs.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    return {"PATH": str(folder), "CUDA_MPS_PIPE_DIRECTORY": str(folder / "mps")}


def verdicts(facts):
    return {one.topic: one.verdict for one in diagnose(facts)}


def test_a_machine_is_looked_at(tmp_path):
    listed = "0, NVIDIA A100, 81920 MiB, Enabled, Exclusive_Process\\n1, Tesla K80, 12288 MiB, [N/A], Default\\n"
    environment = with_programs(tmp_path, nvidia_smi=f"printf '{listed}'", nvidia_cuda_mps_control="")
    facts = probe(environment)
    assert facts.gpus[0] == Gpu("0", "NVIDIA A100", "81920 MiB", True, "Exclusive_Process")
    assert facts.gpus[1].mig is None
    assert (facts.has_mps, facts.runs_mps) == (True, False)
    (tmp_path / "mps").mkdir()
    (tmp_path / "mps" / "control").touch()
    assert probe(environment).runs_mps


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({}, "nvidia-smi is not installed"),
        ({"nvidia_smi": "echo no devices >&2; exit 6"}, "nvidia-smi fails: no devices"),
        ({"nvidia_smi": ""}, "nvidia-smi lists no GPUs"),
    ],
)
def test_a_machine_without_gpus_runs_trials_on_cores(tmp_path, programs, said):
    (finding,) = diagnose(probe(with_programs(tmp_path, **programs)))
    assert (finding.topic, finding.verdict, finding.found) == ("GPUs", "limited", said)


def test_what_is_lacking_is_named():
    assert set(verdicts(ALL).values()) == {"good"}
    assert verdicts(dataclasses.replace(ALL, runs_mps=False))["MPS"] == "limited"
    divided = dataclasses.replace(ALL, gpus=(dataclasses.replace(V100, mig=True),))
    assert verdicts(divided)["MIG"] == "limited"
    exclusive = dataclasses.replace(ALL, gpus=(dataclasses.replace(V100, mode="Exclusive_Process"),))
    assert verdicts(exclusive)["compute mode"] == "good", "with MPS, its server is the one process"
    assert verdicts(dataclasses.replace(exclusive, runs_mps=False))["compute mode"] == "stops"


def test_the_command_says_it_and_fails_if_sharing_cannot_work(tmp_path, monkeypatch):
    facts = MachineFacts((dataclasses.replace(V100, mode="Exclusive_Process"),))
    monkeypatch.setattr(machine, "probe", lambda: facts)
    result = CliRunner().invoke(cli, ["doctor", "--json", str(tmp_path / "found.json")], standalone_mode=False)
    assert result.return_value == 1
    assert "Exclusive_Process on 0" in " ".join(result.output.split())
    assert [one["topic"] for one in json.loads((tmp_path / "found.json").read_text())] == [
        "GPUs", "compute mode", "MIG", "MPS",
    ]  # fmt: skip
