"""Hypothesis profiles, and the options that rewrite stories and golden files."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Commands would open, and fill, the catalogue of whoever runs the tests.
os.environ["QOOP_CATALOGUE"] = ""

# A shell starts jobs in the background without Ctrl-C, and what tests start would inherit that: they interrupt it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a failure is there for everybody.
settings.register_profile("house", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("short", settings.get_profile("house"), max_examples=50)
# Other examples in every run, and more of them: pytest tests/property --hypothesis-profile=search
settings.register_profile(
    "search", deadline=None, max_examples=3000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Half as many examples where the fault matrix is left out, unless the command line names a profile."""
    if config.option.markexpr == "not matrix":
        settings.load_profile("short")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this test suite."""
    parser.addoption(
        "--rewrite-stories",
        action="store_true",
        help="write the traces that the stories in tests/scenario now have; review the difference",
    )
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write the plans that the queries in tests/golden now have; review the difference",
    )
