"""The image builds and its commands run."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


SOCKET = Path("/var/run/docker.sock")


@pytest.fixture
def engine():
    if "DOCKER_HOST" not in os.environ and not SOCKET.exists():
        pytest.skip(f"needs a container engine: no DOCKER_HOST, and no {SOCKET}")
    import docker

    client = docker.from_env()
    yield client
    client.close()


def test_the_image_builds_and_its_commands_run(engine):
    image, _ = engine.images.build(path=str(ROOT), dockerfile="docker/Dockerfile", tag="yarn-plugin-test", rm=True)
    for entry in ("yarn-plugin", "qoop", "tpcds"):
        output = engine.containers.run(image, ["-h"], entrypoint=entry, remove=True).decode()
        assert output.startswith(f"Usage: {entry}")
    java = engine.containers.run(image, ["-version"], entrypoint="java", remove=True, stderr=True).decode()
    assert 'version "17' in java
