"""Hypothesis profiles, and the options that rewrite stories and golden files."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Commands would open, and fill, the catalogue of whoever runs the tests.
os.environ["QOOP_CATALOGUE"] = ""

# The same examples in every run, so that a failure is there for everybody.
settings.register_profile("house", deadline=None, derandomize=True, max_examples=150)
# Other examples in every run, and more of them: pytest tests/property --hypothesis-profile=search
settings.register_profile(
    "search", deadline=None, max_examples=3000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("house")


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
