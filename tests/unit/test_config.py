"""The arbiter's configuration file: what is refused, and how."""

import re

import pytest

from tests.toys.allocators import InTurnSettings
from tests.toys.registry import TOYS
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.leases.settings import RECORDS_S, RULES, LedgerSettings
from yarn_plugin.drive.config import ArbiterConfig, load
from yarn_plugin.toml_files import FileError

POOL = '[[pools]]\nname = "sql"\nqueue = "root.sql"\n'
LEASED = '[[pools]]\nname = "gpu"\nqueue = "root.gpu"\ncontroller = "lease"\n'


LEDGER = LEASED.replace('"lease"', '"ledger"') + "[pools.parameters]\n"


def refusal(tmp_path, text, registry=BUILT_IN):
    """An error about a file's content, without the name of the file."""
    path = tmp_path / "arbiter.toml"
    path.write_text(text)
    with pytest.raises(FileError) as refused:
        load(path, registry)
    return str(refused.value).removeprefix(f"--config '{path}': ")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"{POOL}overstay_s = 15", "pools.sql.overstay_s: renamed to preempt_after_s"),
        (f"{POOL}settle_s = 5", "pools.sql.settle_s: renamed to idle_timeout_s"),
        (f"{POOL}submit_within_s = 120", "pools.sql.submit_within_s: renamed to submit_timeout_s"),
        ("[watch]\napps_s = 5", "watch: renamed to poll"),
        ("[poll]\nfigures_s = 0.4", "poll.figures_s: renamed to metrics_s"),
        ("[poll]\nreported_again_s = 60", "poll.reported_again_s: renamed to reregister_timeout_s"),
        ("[limits]\nsolve_s = 60", "limits.solve_s: renamed to solve_timeout_s"),
    ],
)
def test_a_renamed_key_is_refused_with_its_present_name(tmp_path, text, error):
    assert refusal(tmp_path, text) == error


def test_all_renamed_keys_of_a_section_are_named_at_once(tmp_path):
    second = POOL.replace("sql", "batch")
    assert refusal(tmp_path, f"{POOL}settle_s = 5\noverstay_s = 15\n{second}settle_s = 2") == (
        "pools.sql.overstay_s: renamed to preempt_after_s; pools.sql.settle_s: renamed to idle_timeout_s; "
        "pools.batch.settle_s: renamed to idle_timeout_s"
    )


def test_renamed_keys_hide_no_other_problem(tmp_path):
    text = "[watch]\nfigures_s = 0\nunknown = 1\n[users]\nann = 3\n[[pools]]\nname = 'sql'\nsettle_s = -1\n"
    assert refusal(tmp_path, text).split("; ") == [
        "watch: renamed to poll",
        "pools.sql.settle_s: renamed to idle_timeout_s",
        "pools.sql.queue: required",
        "pools.sql.idle_timeout_s -1: must be at least 0",
        "poll.figures_s: renamed to metrics_s",
        "poll.metrics_s 0: must be at least 0.05",
        "poll.unknown: unknown key",
        "users.ann 3: must be a list",
        "docs/operations.md lists all keys",
    ]


def test_the_old_name_does_not_override_the_new_one(tmp_path):
    assert refusal(tmp_path, f"{POOL}settle_s = -1\nidle_timeout_s = -2").split("; ") == [
        "pools.sql.settle_s: renamed to idle_timeout_s",
        "pools.sql.idle_timeout_s -2: must be at least 0",
    ]


def test_an_unknown_key_is_refused(tmp_path):
    assert (
        refusal(tmp_path, f"{POOL}patience_s = 5")
        == "pools.sql.patience_s: unknown key; docs/operations.md lists all keys"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"{POOL}grace_s = -3", "pools.sql.grace_s -3: must be at least 0"),
        (f"{POOL}max_weight = 0", "pools.sql.max_weight 0: must be above 0"),
        (f"{POOL}max_apps_per_user = 1.5", "pools.sql.max_apps_per_user 1.5: must be an integer"),
        (f'{POOL}grace_s = "long"', "pools.sql.grace_s 'long': must be a number"),
        (f'{POOL}policy = "lottery"', "pools.sql.policy 'lottery': choose one of capacity, fair, fifo, max_min"),
        ('[[pools]]\nqueue = "root.sql"', "pools #1.name: required"),
        ('[[pools]]\nname = "my sql"\nqueue = "root.sql"', "pools #1.name 'my sql': must consist of letters"),
        ('[[pools]]\nname = "sql"\nqueue = "sql"', "pools.sql.queue 'sql': must be a queue below root"),
        (POOL * 2, "pools: two pools have the name 'sql'"),
        (LEASED + LEASED.replace("gpu", "more"), "pools: pool more: parameters.partition '': pool gpu would lease"),
        ("pools = 3", "pools 3: must be a list"),
        ("poll = 3", "poll 3: must be a table"),
        ('[tenants]\n"a b" = ["ann"]', "tenants.a b 'a b': must be 1 to 100 letters, digits or"),
        ('[tenants]\nvision = "ann"', "tenants.vision 'ann': must be a list"),
        ("watchdog_s = \n", "not TOML: line 1, column 14: invalid value"),
        ("[poll]\napps_s = [", "not TOML: line 2, column 11: invalid value"),
    ],
)
def test_an_error_names_the_field_the_value_and_what_is_expected(tmp_path, text, error):
    assert refusal(tmp_path, text).startswith(error)


@pytest.mark.parametrize(
    ("first", "second", "wrong"),
    [
        ('partition = "a"', 'partition = "b"', None),
        ('partition = "a"', 'partition = "a"', "partition 'a'"),
        ('partition = "a"', "", "partition ''"),
        ('nodes = ["n1", "n2"]', 'nodes = ["n3"]', None),
        ('nodes = ["n1", "n2"]', 'nodes = ["n3", "n2"]', "nodes ['n3', 'n2']"),
        ('nodes = ["gpu-a-*"]', 'nodes = ["gpu-b-*", "dgx-[12]"]', None),
        ('nodes = ["gpu-*"]', 'nodes = ["*-1"]', "nodes ['*-1']"),
        ('nodes = ["gpu-*"]', 'nodes = ["gpu-1"]', "nodes ['gpu-1']"),
        ('nodes = ["gpu-[1-4]"]', 'nodes = ["gpu-5"]', None),
        ('nodes = ["n1"]\npartition = "a"', 'nodes = ["n1"]\npartition = "b"', None),
        ('nodes = ["n1"]', 'partition = "b"', "partition 'b'"),
    ],
)
def test_pools_that_may_lease_the_same_gpus_are_refused(tmp_path, first, second, wrong):
    """By their labels, or by the names of their hosts; patterns that may match the same host count as the same."""
    parameters = "[pools.parameters]\n"
    text = f"{LEASED}{parameters}{first}\n{LEASED.replace('gpu', 'more')}{parameters}{second}\n"
    if wrong is None:
        path = tmp_path / "arbiter.toml"
        path.write_text(text)
        assert len(load(path).pools) == 2
    else:
        assert refusal(tmp_path, text).startswith(f"pools: pool more: parameters.{wrong}: pool gpu would lease")


def test_pools_are_configured_by_the_present_rules_which_a_file_cannot_set(tmp_path):
    path = tmp_path / "arbiter.toml"
    path.write_text(LEASED)
    (pool,) = load(path).pools
    assert pool.parameters.rules == RULES
    path.write_text(f"{LEDGER}allocator = 'fifo'")
    (pool,) = load(path).pools
    assert pool.parameters.rules == RULES
    refused = refusal(tmp_path, f"{LEASED}[pools.parameters]\nrules = 1\n")
    assert refused.startswith("pools.gpu.parameters")
    assert "rules: controller 'lease' has no such parameter" in refused


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        (
            "",
            "parameters: allocator: required; choose one of allox, cells, fifo, gpu_queues, job_rounds, shared_gpus, "
            "themis, toy-in-turn, toy-table",
        ),
        ('allocator = "lottery"', "parameters: allocator 'lottery': "),
        ('allocator = "toy-in-turn"\ngrace_s = -1', "parameters: grace_s -1.0: must be a number from 0 to"),
        ('allocator = "toy-in-turn"\ngrace = 1', "parameters: grace: unknown key"),
        ('allocator = "toy-in-turn"\nsettings = 3', "parameters: settings: must be a table with the parameters of all"),
        ('allocator = "toy-in-turn"\nsettings = {lease_s = "long"}', "parameters: settings"),
        ('allocator = "toy-in-turn"\nsettings = {length_s = 3.0}', "parameters: settings: length_s"),
        ('allocator = "toy-table"\nsettings = {lease_s = 3.0}', "parameters: settings: allocator 'toy-table' has no"),
        ('allocator = "toy-table"\ngpu_memory_mb = 0', "parameters: gpu_memory_mb 0: must be above 0"),
    ],
)
def test_the_parameters_of_a_ledger_and_its_allocator_are_checked(tmp_path, parameters, error):
    assert refusal(tmp_path, LEDGER + parameters, TOYS).startswith(f"pools.gpu.{error}")


def test_a_pool_names_its_allocator_and_its_settings(tmp_path):
    path = tmp_path / "arbiter.toml"
    path.write_text(f'{LEDGER}allocator = "toy-in-turn"\ngrace_s = 5.0\n[pools.parameters.settings]\nlease_s = 60.0')
    (pool,) = load(path, TOYS).pools
    assert pool.pool().parameters == LedgerSettings(
        "toy-in-turn", InTurnSettings(lease_s=60.0), grace_s=5.0, rules=RULES, adopts_leases=True, records_s=RECORDS_S
    )


def test_lease_is_short_for_the_ledger_with_the_auction(tmp_path):
    path = tmp_path / "arbiter.toml"
    path.write_text(f"{LEASED}[pools.parameters]\nf = 0.5\npolicy = 'tiresias'\ngrace_s = 5\nnodes = ['n1']\n")
    (section,) = load(path).pools
    expected = LedgerSettings(
        "themis",
        AuctionSettings(policy="tiresias", f=0.5),
        grace_s=5.0,
        nodes=("n1",),
        rules=RULES,
        adopts_leases=True,
        records_s=RECORDS_S,
    )
    assert (section.pool().controller, section.pool().parameters) == ("ledger", expected)


def test_a_ledger_and_an_auction_may_not_lease_the_same_gpus(tmp_path):
    text = LEASED + LEDGER.replace('"gpu"', '"more"') + 'allocator = "toy-table"'
    assert refusal(tmp_path, text, TOYS).startswith("pools: pool more: parameters.partition '': pool gpu would lease")


def test_by_default_a_neighbour_keeps_an_eleventh_of_the_pool():
    """Idle registrations count in the division, whoever owns them."""
    (pool,) = ArbiterConfig().pools
    most = pool.max_apps_per_user * pool.max_weight
    assert 1 / (1 + most) >= 1 / 11


def test_a_pool_without_a_policy_is_divided_between_users(tmp_path):
    assert [one.policy for one in load(None).pools] == ["max_min_users"]


CELLS = """
[cell_types.node]
child = "gpu"
number = 4
is_node = true
[[cells]]
type = "node"
nodes = ["n0"]
[virtual_clusters.prod]
cells = [{ type = "node", number = %d }]
"""

WITH_CELLS = """
[[pools]]
name = "gpu"
queue = "root.gpu"
controller = "ledger"
parameters = { allocator = "cells", settings = { cells = "cells.toml" } }
"""


def test_settings_of_an_allocator_may_name_a_file_beside_the_configuration(tmp_path):
    (tmp_path / "cells.toml").write_text(CELLS % 1)
    path = tmp_path / "arbiter.toml"
    path.write_text(WITH_CELLS)
    settings = load(path).pools[0].pool().parameters.settings
    assert settings.cells.clusters["prod"].quotas[0].number == 1
    (tmp_path / "cells.toml").write_text(CELLS % 2)
    with pytest.raises(FileError, match="virtual_clusters: chain node, level 2: cells of type node"):
        load(path)
    (tmp_path / "cells.toml").unlink()
    with pytest.raises(FileError, match=r"cells = 'cells.toml'.*no such file"):
        load(path)


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ('inside = { nobody = "fifo" }', "inside 'nobody'"),
        ('inside = { prod = "lottery" }', "inside.prod 'lottery'"),
        ('inside = { prod = "cells" }', "inside.prod 'cells'"),
        ('inside = { prod = "fifo" }, inside_lease_s = 0', "inside_lease_s 0"),
    ],
)
def test_a_scheduler_inside_a_virtual_cluster_must_exist(inside, problem, tmp_path):
    (tmp_path / "cells.toml").write_text(CELLS % 1)
    given = WITH_CELLS.replace('cells = "cells.toml"', f'cells = "cells.toml", {inside}')
    assert given != WITH_CELLS
    (tmp_path / "arbiter.toml").write_text(given)
    with pytest.raises(FileError, match=re.escape(problem)) as refusal:
        load(tmp_path / "arbiter.toml")
    assert "\n" not in str(refusal.value)
