"""What happened to queries, from their journals: stages over time, shares, decisions, plans; as parts of a page.

    write_report(Path("q72.html"), {"q72": Path("q72.journal")})

Or take a `section`, or single parts, into a page of one's own: `stages_chart`, `share_chart`, `decision_list`,
`plan_blocks`.
"""

from qoop.report.decisions import WON_BY, decision_list, what_won
from qoop.report.plans import plan_blocks
from qoop.report.record import NoRecordError, QueryRecord, read
from qoop.report.sections import header_blocks, page, parts, section, write_report
from qoop.report.stages import stages_chart
from qoop.report.timeline import Axis, moments, share_chart

__all__ = [
    "WON_BY",
    "Axis",
    "NoRecordError",
    "QueryRecord",
    "decision_list",
    "header_blocks",
    "moments",
    "page",
    "parts",
    "plan_blocks",
    "read",
    "section",
    "share_chart",
    "stages_chart",
    "what_won",
    "write_report",
]
