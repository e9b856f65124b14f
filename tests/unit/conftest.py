"""What several files of unit tests use."""

import pytest

from tests.http_service import Service


@pytest.fixture
def make(tmp_path):
    made = []

    def one(*pools, **options):
        made.append(Service(tmp_path / f"state-{len(made)}", *pools, **options))
        return made[-1]

    yield one
    for service in made:
        service.arbiter.close()


@pytest.fixture
def service(make):
    return make()
