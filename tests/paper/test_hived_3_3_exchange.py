"""Balanced exchange of cells (an earlier version of HiveD, section 3.3, Algorithm 2; section 5.4)."""

import random

import pytest

from tests.unit.test_job_simulation import REGISTRY, job
from yarn_plugin.decide.mechanisms.cell_exchange import CellRequest, Exchange, exchange
from yarn_plugin.drive.job_runs import simulate_private
from yarn_plugin.simulation.jobs.exchange import exchange_nodes
from yarn_plugin.simulation.jobs.virtual_clusters import whole_nodes


def test_line_3_the_tenant_that_gave_the_most_is_served_first():
    requests = [CellRequest("a", 1), CellRequest("b", 1)]
    matches, surplus = exchange(requests, {"c": 1}, {"b": 8.0}, 8.0)
    assert matches == [Exchange(CellRequest("b", 1), ("c",))]
    assert surplus == {"b": 0.0, "c": 8.0}


def test_line_7_its_cell_comes_from_the_tenant_that_gave_the_least():
    matches, surplus = exchange([CellRequest("a", 1)], {"b": 1, "c": 1}, {"b": 8.0, "c": -8.0}, 8.0)
    assert [match.givers for match in matches] == [("c",)]
    assert surplus == {"b": 8.0, "c": 0.0, "a": -8.0}


def test_a_request_is_served_once_as_a_whole_and_never_by_its_own_tenant():
    requests = [CellRequest("a", 2), CellRequest("a", 1), CellRequest("b", 3)]
    matches, surplus = exchange(requests, {"a": 5, "b": 1}, {}, 8.0)
    assert matches == [Exchange(CellRequest("a", 1), ("b",)), Exchange(CellRequest("b", 3), ("a", "a", "a"))]
    assert sum(surplus.values()) == 0.0
    assert exchange(requests, {}, {}, 8.0) == ([], {})


def exchanged(nodes, jobs):
    found = exchange_nodes(simulate_private(REGISTRY, whole_nodes(nodes), jobs, "fifo"), 8)
    return {one.tenant: one for one in found}


def test_waiting_jobs_run_on_nodes_that_others_do_not_use_and_give_theirs_in_turn():
    hour = 3600
    jobs = [job(0, "a", 0, 8, 20 * hour), job(1, "a", 1, 8, 2 * hour),
            job(2, "b", 30 * hour, 8, 20 * hour), job(3, "b", 30 * hour + 1, 8, 2 * hour)]  # fmt: skip
    found = exchanged({"a": 1, "b": 1}, jobs)
    assert [(one.own, one.given, one.taken, one.lost) for one in found.values()] == [(160.0, 16.0, 16.0, 0.0)] * 2
    assert [one.gain for one in found.values()] == [0.1, 0.1]


def test_a_lent_node_is_taken_back_at_once():
    hour = 3600
    jobs = [job(0, "a", 0, 8, 20 * hour), job(1, "a", 1, 8, 10 * hour), job(2, "b", 3 * hour + 60, 8, hour)]
    found = exchanged({"a": 1, "b": 1}, jobs)
    assert found["a"].lost == pytest.approx(8 * (2 + 60 / hour)), "lent at the first full hour, lost after b came"
    assert found["a"].taken == found["b"].given == 80.0, "and lent once more when b's job has ended"


def test_another_free_node_takes_the_place_of_one_that_its_owner_needs():
    hour = 3600
    jobs = [job(0, "a", 0, 8, 20 * hour), job(1, "a", 1, 8, 10 * hour), job(2, "b", 3 * hour, 8, hour)]
    found = exchanged({"a": 1, "b": 1, "c": 1}, [*jobs, job(3, "c", 0, 1, 60)])
    assert (found["a"].taken, found["a"].lost) == (80.0, 0.0)
    assert (found["b"].given, found["c"].given) == (2 * 8.0, 8 * 8.0)


def test_small_jobs_share_a_borrowed_node_and_use_what_gets_free_there():
    hour = 3600
    jobs = [job(0, "a", 0, 8, 20 * hour), *(job(number, "a", 1, 4, 2 * hour) for number in (1, 2, 3))]
    found = exchanged({"a": 1, "b": 1}, [*jobs, job(4, "a", 2, 1, 4 * hour)])
    assert (found["a"].taken, found["a"].lost) == (3 * 8.0 + 4.0, 0.0), "two at 1 h, the others at 3 h"


def test_a_job_whose_turn_comes_goes_on_if_it_has_whole_nodes():
    hour = 3600
    whole = exchanged({"a": 1, "b": 1}, [job(0, "a", 0, 8, 3 * hour), job(1, "a", 1, 8, 10 * hour)])
    assert (whole["a"].taken, whole["a"].lost) == (16.0, 0.0)
    part = exchanged({"a": 1, "b": 1}, [job(0, "a", 0, 8, 3 * hour), job(1, "a", 1, 4, 10 * hour)])
    assert (part["a"].taken, part["a"].lost) == (0.0, 8.0)


@pytest.mark.parametrize("seed", range(10))
def test_nobody_starts_later_and_no_more_is_lent_than_is_free(seed):
    draw = random.Random(seed)
    jobs = [
        job(number, draw.choice("abc"), 600 * number, draw.choice([1, 2, 4, 8, 16]), draw.randint(60, 40_000))
        for number in range(60)
    ]
    found = exchanged({"a": 2, "b": 2, "c": 3}, jobs).values()
    assert sum(one.given for one in found) == pytest.approx(sum(one.taken for one in found))
    assert {one.later for one in found} == {0}
    total = sum(one.gpus * one.seconds[0] for one in jobs) / 3600
    assert sum(one.own + one.taken for one in found) == pytest.approx(total)
