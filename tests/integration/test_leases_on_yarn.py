"""Leases on a real cluster: containers hold GPUs as leased, and no GPU is held twice, whatever is killed."""

import pytest

from tests.integration.sleepers import eventually
from tests.leased.intervals import overlaps
from tests.leased.lab import Lab

pytestmark = pytest.mark.integration


@pytest.fixture
def lab(cluster, tmp_path):
    made = Lab(cluster, tmp_path)
    yield made
    made.close()


def test_one_application_takes_the_gpus_that_it_leases(lab):
    lab.submit("ann", gpus=2, work_s=10)
    batch = lab.submit_batch()
    eventually(lambda: len(lab.gpus_of("ann")) == 2, "ann's containers run")
    lab.until_ended(batch, lab.apps["ann"])
    assert not overlaps(lab.intervals())
