"""What a query believes of its slots while Spark adds executors, as many as the cluster has room for."""

import os
import signal
import subprocess
import sys
import time

import pytest

from qoop.run import journal
from tests.eventually import eventually
from tests.integration.query_process import FLAGS, access
from tpcds import data

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

SLOW = (
    "SELECT count(*) AS n FROM (SELECT ss_ticket_number AS t, ss_item_sk AS i, count(*) AS m"
    " FROM store_sales, date_dim, item, store WHERE ss_sold_date_sk = d_date_sk AND ss_item_sk = i_item_sk"
    " AND ss_store_sk = s_store_sk GROUP BY 1, 2"
    " HAVING sha2(repeat(CAST(ss_ticket_number AS STRING), 60000), 512) <> 'x') q"
)
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "32",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.shuffle.partitions": "48",
    "spark.sql.files.maxPartitionBytes": "262144",
    "spark.sql.files.openCostInBytes": "0",
}
NOTICED_S = 5.0


def believed(path):
    """When the executors had how many slots, and for how many slots plans were compared when."""
    records = journal.follow(path) if path.exists() else []
    events = [record for record in records if record["kind"] == "input"]
    live = [(one["at"], one["event"]["slots"]) for one in events if one["event"]["type"] == "ExecutorsChanged"]
    notes = [
        (record["at"], command["decision"]["slots"])
        for record in records
        if record["kind"] == "decision"
        for command in record["commands"]
        if command["type"] == "Note"
    ]
    return live, notes


def test_slots_are_those_of_the_executors_that_there_are(cluster, arbiter, tmp_path):
    """Told the most that dynamic allocation allows, 32, while there is room for two, and then for three."""
    names = sorted(name for name in cluster.daemons if name.startswith("nm-"))
    for name in names[2:]:
        os.kill(cluster.daemons[name], signal.SIGKILL)
    environment, _ = access(cluster, arbiter, tmp_path)
    tables = data.open_data(data.ensure(0.1))
    settings = [part for name, value in DYNAMIC.items() for part in ("--conf", f"{name}={value}")]
    words = (sys.executable, "-c", "from qoop.cli import main; main()", "submit", *FLAGS, "--executor-cores", "1")
    words = [*words, *settings, "--tables", tables.path, "--journal", tmp_path / "journal", "-e", SLOW]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(list(map(str, words)), env=environment, stdout=subprocess.DEVNULL, stderr=log)
    try:
        eventually((tmp_path / "journal").exists, "the query begins", 240)
        for slots in (2.0, 3.0):
            eventually(lambda slots=slots: slots in dict(believed(tmp_path / "journal")[1]).values(), f"{slots}", 180)
            live, notes = believed(tmp_path / "journal")
            noticed = next(at for at, there in live if there == slots)
            assert next(at for at, used in notes if used == slots and at >= noticed) <= noticed + NOTICED_S
            assert live[-1][1] == notes[-1][1] == slots
            if slots == 2.0:
                time.sleep(NOTICED_S)
                assert believed(tmp_path / "journal")[1][-1][1] == 2.0, "there are no more"
                cluster.start(names[2])
        assert process.poll() is None, (tmp_path / "log").read_text()
    finally:
        process.terminate()
        process.wait(60)
