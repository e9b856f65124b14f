"""HTML reports of queries from their journals: stages over time, shares, decisions and plans.

    write_report(Path("q72.html"), {"q72": Path("q72.journal")})

Pages of other reports can include a `section`, or parts of it: `stages_chart`, `share_chart`, `decision_list`,
`plan_blocks`.
"""

from qoop.report.decisions import WON_BY, decision_list, switch_explanations
from qoop.report.plans import plan_blocks
from qoop.report.record import NoRecordError, QueryRecord, read_journal
from qoop.report.sections import ensure_writable, header_blocks, page, query_sections, section, write_report
from qoop.report.stages import stages_chart
from qoop.report.timeline import Axis, moments, share_chart

__all__ = [
    "WON_BY",
    "Axis",
    "NoRecordError",
    "QueryRecord",
    "decision_list",
    "ensure_writable",
    "header_blocks",
    "moments",
    "page",
    "plan_blocks",
    "query_sections",
    "read_journal",
    "section",
    "share_chart",
    "stages_chart",
    "switch_explanations",
    "write_report",
]
