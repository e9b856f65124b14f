"""Samples of the cluster while the story is played, once a second."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpcds.demo_cluster import Stage
from tpcds.demo_story import AppSample, Sample
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterError

EVERY_S = 1.0
MEMORY, VCORES = "memory-mb", "vcores"


@contextmanager
def sampling(stage: Stage, out: Path) -> Iterator[None]:
    """Write a sample a second to a file of JSON lines, meanwhile."""
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=(stage.client(), out, stop), name="samples", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=10)


def _run(client: ArbiterClient, out: Path, stop: threading.Event) -> None:
    with out.open("w", encoding="utf-8") as file:
        while True:
            try:
                sample = _sample(client)
            except ArbiterError:
                # A look that fails leaves a gap of a second.
                continue
            finally:
                ended = stop.wait(EVERY_S)
            file.write(sample.model_dump_json() + "\n")
            file.flush()
            if ended:
                return


def _sample(client: ArbiterClient) -> Sample:
    cluster, apps = client.cluster(), client.apps()
    return Sample(
        at=time.time(),
        memory_mb=cluster.capacity.get(MEMORY, 0),
        vcores=cluster.capacity.get(VCORES, 0),
        apps=tuple(_app(app) for app in apps),
    )


def _app(app: wire.App) -> AppSample:
    return AppSample(
        name=app.name,
        memory_mb=app.used.get(MEMORY, 0),
        vcores=app.used.get(VCORES, 0),
        containers=app.containers,
        guarantee=app.share.guarantee.fraction if app.share else None,
        entitlement=app.share.entitlement.fraction if app.share else None,
    )
