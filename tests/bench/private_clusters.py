"""Who waits longer than in a private cluster: HiveD's virtual clusters beside quotas of GPUs (HiveD, section 5.2).

Jobs of a trace in the virtual clusters with the most GPU time, in virtual time, whole seconds, as `yarn-plugin simulate
--policy cells,quota --load` runs them: FIFO in each virtual cluster, gangs, no preemption, no low priority. Up to 8
GPUs on one node, above that whole nodes. Each virtual cluster's quota is whole nodes: its GPU time over the load, at
least what its largest job needs.

By environment variables: `PRIVATE_TRACE`, a CSV with timestamp, duration, num_gpus and cluster, without which this
bench measures nothing; `PRIVATE_FROM_DAY` (27: October 2017 in Philly's), the first day; `PRIVATE_RUNS`, days:load
(30:0.7,30:0.9,30:1.1,60:0.9); `PRIVATE_CLUSTERS` (8).
"""

import os
from pathlib import Path
from typing import Any

from yarn_plugin.console import out
from yarn_plugin.drive.job_runs import simulate_cells
from yarn_plugin.drive.registry import installed
from yarn_plugin.simulation.figures import job_figures
from yarn_plugin.simulation.jobs import trace
from yarn_plugin.simulation.jobs.virtual_clusters import GPUS_PER_NODE, by_gpu_time


def measure() -> dict[str, Any]:
    """How many jobs wait more than a minute longer than in private clusters, by run."""
    path = os.environ.get("PRIVATE_TRACE")
    if path is None:
        out.print("  PRIVATE_TRACE is not set: nothing is measured")
        return {}
    first, clusters = (int(os.environ.get(f"PRIVATE_{name}", default)) for name, default in
                       (("FROM_DAY", "27"), ("CLUSTERS", "8")))  # fmt: skip
    results: dict[str, Any] = {"hived_longer": 0}
    for run in os.environ.get("PRIVATE_RUNS", "30:0.7,30:0.9,30:1.1,60:0.9").split(","):
        days, load = run.split(":")
        jobs = trace.read("PRIVATE_TRACE", Path(path), GPUS_PER_NODE, first, int(days), clusters).jobs
        spec, registry = by_gpu_time(jobs, float(load)), installed()
        private, shared, quota = (simulate_cells(policy, registry, spec, jobs, "fifo").jobs
                                  for policy in ("private", "cells", "quota"))  # fmt: skip
        alone = {job.number: job for job in private}
        name = f"{days}_days_load_{load}"
        results[f"{name}_nodes"], results[f"{name}_jobs"] = len(spec.cells), len(jobs)
        for kind, outcome in (("hived", shared), ("quota", quota)):
            its = job_figures(outcome, alone)
            results[f"{name}_{kind}_longer"] = its.later
            results[f"{name}_{kind}_longer_min"] = round((its.later_s or 0) / 60)
            results[f"{name}_{kind}_worst_min"] = round((its.worst_later_s or 0) / 60)
        results["hived_longer"] += sum((job.wait_s or 0) > (alone[job.number].wait_s or 0) for job in shared)
    return results
