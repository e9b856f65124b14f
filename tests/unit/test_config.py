"""The arbiter's configuration file: what is refused, and how."""

import pytest

from yarn_plugin.drive.config import load
from yarn_plugin.toml_files import FileError

POOL = '[[pools]]\nname = "sql"\nqueue = "root.sql"\n'


def refusal(tmp_path, text):
    """An error about a file's content, without the name of the file."""
    path = tmp_path / "arbiter.toml"
    path.write_text(text)
    with pytest.raises(FileError) as refused:
        load(path)
    return str(refused.value).removeprefix(f"--config '{path}': ")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"{POOL}overstay_s = 15", "pools.0.overstay_s: renamed to preempt_after_s"),
        (f"{POOL}settle_s = 5", "pools.0.settle_s: renamed to idle_timeout_s"),
        (f"{POOL}submit_within_s = 120", "pools.0.submit_within_s: renamed to submit_timeout_s"),
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
        "pools.0.overstay_s: renamed to preempt_after_s; pools.0.settle_s: renamed to idle_timeout_s; "
        "pools.1.settle_s: renamed to idle_timeout_s"
    )


def test_an_unknown_key_is_refused(tmp_path):
    assert refusal(tmp_path, f"{POOL}patience_s = 5") == "pools.0.patience_s 5: Extra inputs are not permitted"
