"""From a share to executors and slots, and from Spark's flags to the size of an executor."""

import pytest

from qoop.feedback.arbiter import ExecutorSize, ShareTooSmallError
from qoop.submit.job import Job, SparkFlags, SubmissionError, read_query, spark_defaults
from yarn_plugin.errors import BadInputError

SIZE = ExecutorSize(memory=1_408, vcores=2, slots=2, master_memory=896, master_vcores=1)


def amount(memory, vcores):
    return {"memory-mb": memory, "vcores": vcores}


@pytest.mark.parametrize(
    ("resources", "executors"),
    [
        (amount(896 + 1_408, 3), 1),
        (amount(896 + 3 * 1_408, 7), 3),
        (amount(896 + 3 * 1_408 - 1, 7), 2),
        (amount(896 + 3 * 1_408, 6), 2),
        (amount(896, 1), 0),
        (amount(0, 0), 0),
        ({}, 0),
    ],
)
def test_the_executors_that_fit_besides_the_master(resources, executors):
    assert SIZE.count(resources) == executors


def test_the_total_of_some_executors_holds_them():
    for executors in range(5):
        assert SIZE.count(SIZE.total(executors)) == executors


def test_a_share_too_small_for_one_executor_names_a_remedy():
    with pytest.raises(ShareTooSmallError) as caught:
        SIZE.require_one(amount(2_000, 2), "the whole cluster's share")
    said = str(caught.value)
    assert said.startswith("the whole cluster's share: 2000 MiB, 2 vcores ")
    assert "2304 MiB, 3 vcores" in said
    assert "--executor-memory" in said
    SIZE.require_one(amount(2_304, 3), "it")


def flags(*words, **defaults):
    return SparkFlags(words, {name.replace("_", "."): value for name, value in defaults.items()})


def test_containers_have_overhead_and_are_rounded_up_to_yarns_increment():
    size = flags("--executor-memory", "4g", "--executor-cores", "3").executor_size(step_mb=128)
    assert size == ExecutorSize(memory=4_608, vcores=3, slots=3, master_memory=896, master_vcores=1)
    # A tenth, but 384 MB at least: 4096 + 409 is 4505, in steps of 128 4608.


@pytest.mark.parametrize(
    ("given", "memory"),
    [
        (flags(), 1_408),
        (flags("--executor-memory=2g"), 2_432),
        (flags("--conf", "spark.executor.memory=512m"), 896),
        (flags("--conf=spark.executor.memory=512"), 896),
        (flags(spark_executor_memory="2048m"), 2_432),
        (flags("--executor-memory", "1g", spark_executor_memory="9g"), 1_408),
        (flags("--conf", "spark.executor.memoryOverhead=1g"), 2_048),
    ],
)
def test_memory_sizes_are_parsed_like_spark(given, memory):
    assert given.executor_size(128).memory == memory


def test_tasks_of_several_cores_reduce_the_slots():
    size = flags("--executor-cores", "8", "--conf", "spark.task.cpus=3").executor_size(1)
    assert (size.vcores, size.slots) == (8, 2)


def test_in_cluster_mode_the_driver_is_the_master():
    size = flags("--deploy-mode", "cluster", "--driver-memory", "2g", "--driver-cores", "2").executor_size(1)
    assert (size.master_memory, size.master_vcores) == (2_048 + 384, 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--executor-memory", "lots"), "--executor-memory 'lots': "),
        (("--conf", "spark.executor.memory=-1g"), "'-1g': "),
        (("--executor-cores", "0"), "--executor-cores '0': "),
        (("--executor-cores", "two"), "--executor-cores 'two': "),
        (("--conf", "spark.task.cpus=half"), "spark.task.cpus 'half': "),
    ],
)
def test_malformed_sizes(words, said):
    with pytest.raises(BadInputError) as caught:
        flags(*words).executor_size(128)
    assert said in str(caught.value)


def test_the_last_flag_wins_and_flags_win_over_defaults():
    given = flags("--master", "yarn", "--master=local[2]", spark_master="yarn")
    assert given.master == "local[2]"
    assert not given.is_yarn
    assert flags(spark_master="yarn").is_yarn
    assert flags().master == "local[*]"


def test_cluster_mode_names_all_that_it_needs():
    with pytest.raises(SubmissionError) as caught:
        flags("--deploy-mode", "cluster").check(output=True, checkpoint=False)
    assert ": also give --checkpoint URL, --archives FILE " in str(caught.value)
    flags("--deploy-mode", "cluster", "--archives", "env.tar.gz").check(output=True, checkpoint=True)
    flags().check(output=False, checkpoint=False)


def test_defaults_are_parsed_like_spark_submit(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("# c\nspark.master   yarn\nspark.a=b c\n\nalone\n")
    (tmp_path / "other.conf").write_text("spark.master local\n")
    home = {"SPARK_HOME": str(tmp_path)}
    assert spark_defaults([], home) == {"spark.master": "yarn", "spark.a": "b c"}
    assert spark_defaults(["--properties-file", str(tmp_path / "other.conf")], home) == {"spark.master": "local"}
    assert spark_defaults([], {"SPARK_CONF_DIR": str(tmp_path / "nowhere")}) == {}


def test_a_job_survives_json():
    job = Job(text="SELECT 1", name="q", size=(1, 2, 3, 4, 5), profile="p.csv")
    assert Job.model_validate_json(job.model_dump_json()) == job


def test_a_query_comes_from_a_file_or_the_command_line(tmp_path):
    (tmp_path / "q.sql").write_text("SELECT 1;\n")
    assert read_query(str(tmp_path / "q.sql"), None) == "SELECT 1"
    assert read_query(None, "SELECT 2") == "SELECT 2"
    for file, text, said in [
        (None, None, "QUERY.sql: required"),
        ("q.sql", "SELECT 1", "QUERY.sql, -e: give only one"),
        (str(tmp_path / "none.sql"), None, "no such file"),
        (None, " \n", "the text is empty"),
    ]:
        with pytest.raises(SubmissionError, match=said):
            read_query(file, text)
