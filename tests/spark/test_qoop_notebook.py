"""A notebook with `%%qoop`, run by nbclient where it is installed: progress while it runs, an interrupt, the answer."""

import asyncio
import re

import pytest

from tests.spark.spark_sessions import small_data

nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

SESSION = """
import qoop
from pathlib import Path
from pyspark.sql import SparkSession
from qoop.submit.driver import show_all_tables
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
show_all_tables(spark, Path({folder!r}), print)
joined = qoop.join(spark, profile={profile!r})
"""

QUERY = """%%qoop --plan always --rows 2 --into best
SELECT i_category, count(*) AS n FROM store_sales a JOIN store_sales b ON a.ss_item_sk = b.ss_item_sk
JOIN item ON a.ss_item_sk = i_item_sk JOIN store ON a.ss_store_sk = s_store_sk GROUP BY 1
"""

ENDLESS = "%%qoop\nSELECT count(*) FROM range(10000000000000) WHERE rand() > 0.5"
"""Not `rand() > 2`, which Spark knows to be false: such a query ends at once."""

AFTER = """
print(spark.sql('SELECT 40 + 2').collect()[0][0], len(spark.sparkContext.statusTracker().getActiveJobsIds()))
"""


class Client(nbclient.NotebookClient):
    """Keeps all that a cell has shown, in order; interrupts the endless one, as Jupyter does, when its tasks run."""

    shown: tuple = ()
    interrupting = None

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "update_display_data":
            self.shown = (*self.shown, msg["content"]["data"]["text/html"])
            if cell.source == ENDLESS and "tasks: " in self.shown[-1] and self.interrupting is None:
                self.interrupting = asyncio.ensure_future(self.km.interrupt_kernel())
        return super().process_message(msg, cell, cell_index)


def run(notebook, *sources):
    """Run the cells with these sources; the client, and the text that each cell has printed."""
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    client = Client(notebook, timeout=240, allow_errors=True, kernel_name="python3")
    client.execute()
    return client, ["".join(one.get("text", "") for one in cell.outputs) for cell in notebook.cells]


def test_a_notebook_shows_progress_and_an_interrupt_cancels_the_query(tmp_path):
    (tmp_path / "profile").write_text("0,2\n")
    notebook = nbformat.v4.new_notebook()
    session = SESSION.format(folder=str(small_data().path), profile=str(tmp_path / "profile"))
    rows = "print(len(best), best[0]['n'] > 0)"
    client, printed = run(notebook, session, "%load_ext qoop", QUERY, rows, ENDLESS, AFTER)
    failures = [[one for one in cell.outputs if one.output_type == "error"] for cell in notebook.cells]
    assert [bool(cell) for cell in failures] == [False, False, False, False, True, False], failures
    assert printed[3].split()[1] == "True"
    final = next(one.data["text/html"] for one in notebook.cells[2].outputs if one.output_type == "display_data")
    assert final.startswith("<table><thead><tr><th>i_category</th><th>n</th>")
    assert "&lt;svg" in final, "the plan is a picture"
    progress = [page for page in client.shown if page.startswith("<pre>") and re.search("stage|tasks", page)]
    assert len(progress) >= 3
    assert failures[4][0].ename == "KeyboardInterrupt"
    assert printed[5] == "42 0\n"
