"""Fixtures of several unit test modules."""

import contextlib
import resource
from contextlib import ExitStack, contextmanager

import pytest

from tests.http_service import Service


@pytest.fixture
def closing():
    """Returns what it is given, and closes it at the end of the test."""
    with ExitStack() as stack:
        yield lambda one: stack.enter_context(contextlib.closing(one))


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


@pytest.fixture
def room():
    """Limit the size to which files may grow, for the duration of a block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    @contextmanager
    def only(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return only
