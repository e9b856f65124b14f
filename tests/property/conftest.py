"""The same examples in every run, so that a failure is there for everybody.

To search further: `pytest tests/property --hypothesis-profile=search`.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("house", deadline=None, derandomize=True, max_examples=150)
settings.register_profile(
    "search", deadline=None, max_examples=3000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("house")
