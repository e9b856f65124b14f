"""What this machine has and lacks for trials on its GPUs, and for sharing them: `themis-agent doctor`."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.checks import Finding

_QUERY = "index,name,memory.total,mig.mode.current,compute_mode"
_TIMEOUT_S = 30.0
MPS_PIPES = "/tmp/nvidia-mps"
"""Of CUDA_MPS_PIPE_DIRECTORY."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as nvidia-smi shows it. `mig`: whether it is divided by MIG; None: it cannot be. `mode`: of computing."""

    index: str
    name: str
    memory: str
    mig: bool | None
    mode: str


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What was found. `problem`: why nvidia-smi lists no GPUs. `has_mps`, `runs_mps`: its control program is installed,
    its daemon runs."""

    gpus: tuple[Gpu, ...] = ()
    problem: str = ""
    has_mps: bool = False
    runs_mps: bool = False


def probe(environment: Mapping[str, str] = os.environ) -> MachineFacts:
    """Look at this machine. Changes nothing."""
    pipes, path = Path(environment.get("CUDA_MPS_PIPE_DIRECTORY", MPS_PIPES)), environment.get("PATH")
    gpus, problem = _listed(shutil.which("nvidia-smi", path=path))
    has_mps = shutil.which("nvidia-cuda-mps-control", path=path) is not None
    return MachineFacts(gpus, problem, has_mps, _is_mps_in(pipes))


def _listed(program: str | None) -> tuple[tuple[Gpu, ...], str]:
    """The GPUs that nvidia-smi lists, and why there are none."""
    if program is None:
        return (), "nvidia-smi is not installed"
    try:
        command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S).stdout
    except subprocess.CalledProcessError as failed:
        said = " ".join((failed.stdout or failed.stderr or "").split())[:200]
        return (), f"nvidia-smi fails: {said or f'exit code {failed.returncode}'}"
    except (OSError, subprocess.SubprocessError) as problem:
        return (), f"nvidia-smi fails: {problem}"
    gpus = tuple(_gpus(listed))
    return gpus, "" if gpus else "nvidia-smi lists no GPUs"


def diagnose(facts: MachineFacts) -> list[Finding]:
    """What follows for trials, and for those that share a GPU."""
    if not facts.gpus:
        follows = "trials run on cores, and see made-up numbers as CUDA_VISIBLE_DEVICES"
        return [Finding("GPUs", facts.problem, "limited", follows)]
    findings = [Finding("GPUs", ", ".join(f"{gpu.index}: {gpu.name}, {gpu.memory}" for gpu in facts.gpus), "good")]
    exclusive = _some(facts.gpus, lambda gpu: gpu.mode not in ("Default", "[N/A]"))
    if exclusive and not facts.runs_mps:
        modes = ", ".join(sorted({gpu.mode for gpu in facts.gpus if gpu.index in exclusive}))
        follows = "a second trial on the same GPU fails: nvidia-smi -c DEFAULT, or run MPS"
        findings.append(Finding("compute mode", f"{modes} on {', '.join(exclusive)}", "stops", follows))
    else:
        findings.append(Finding("compute mode", ", ".join(sorted({gpu.mode for gpu in facts.gpus})), "good"))
    if divided := _some(facts.gpus, lambda gpu: gpu.mig is True):
        follows = "its instances are not told apart: trials that share the GPU use the first one; nvidia-smi -mig 0"
        findings.append(Finding("MIG", f"on for {', '.join(divided)}", "limited", follows))
    else:
        findings.append(Finding("MIG", "off", "good"))
    if facts.runs_mps:
        findings.append(Finding("MPS", "its daemon runs", "good"))
    else:
        state = "installed, its daemon does not run" if facts.has_mps else "not installed"
        follows = "trials on one GPU take turns, and their part of its computing is not enforced"
        findings.append(Finding("MPS", state, "limited", follows + (": nvidia-cuda-mps-control -d" * facts.has_mps)))
    return findings


def _is_mps_in(pipes: Path) -> bool:
    try:
        return (pipes / "control").exists()
    except OSError:
        return False


def _gpus(listed: str) -> Iterator[Gpu]:
    for line in listed.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == len(_QUERY.split(",")):
            index, name, memory, mig, mode = fields
            yield Gpu(index, name, memory, {"Enabled": True, "Disabled": False}.get(mig), mode)


def _some(gpus: Sequence[Gpu], has: Callable[[Gpu], bool]) -> list[str]:
    return [gpu.index for gpu in gpus if has(gpu)]
