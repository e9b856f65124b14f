"""The page of a paper's figures, and the command that makes each."""

from collections.abc import Sequence

from yarn_plugin.quantities import count, number
from yarn_plugin.report import Badge, Code, KeyFigure, KeyFigures, Page, Section, Table, Text, table_of
from yarn_plugin.report.table import Tone
from yarn_plugin.simulation.paper_figures.charts import Charts
from yarn_plugin.simulation.paper_figures.claims import Claim, Results, Verdict
from yarn_plugin.simulation.paper_figures.specification import FigureSection, Paper

TONES: dict[Verdict, Tone] = {"agrees": "good", "not decided": "warn", "disagrees": "bad"}

COLUMNS = ("figure", "effect", "paper", "#here", "95% interval", "sign and shape")


def row(claim: Claim) -> tuple[str, str, str, str, str, Verdict]:
    """A claim and what was measured, under `COLUMNS`."""
    one = claim.measured
    between = "one seed" if one.low is None else f"{number(one.low, 3)} to {number(one.high, 3)}"
    return claim.figure, claim.text, claim.paper, number(one.mean, 3), between, claim.verdict


def page(name: str, paper: Paper, claims: Sequence[Claim], results: Results, seeds: Sequence[int], size: str) -> Page:
    """The page of a paper, which the command calls `name`."""
    verdicts = [claim.verdict for claim in claims]
    counted = tuple(KeyFigure(verdict, str(verdicts.count(verdict)), "claims", tone) for verdict, tone in TONES.items())
    told = tuple(Text(f"{one.effect}: {one.why}.", "muted") for one in paper.told)
    return Page(
        title=paper.title,
        subtitle=f"size {size}: {paper.sizes[size].shown}; {count(len(seeds), 'seed')}",
        top=(
            KeyFigures(counted),
            Text(
                "Means over paired seeds: a ratio is taken within each seed, its mean is geometric. Intervals: 95%, by "
                "Student's t. A claim counts as decided if its whole interval is on one side."
                f"{f' {paper.note}' if paper.note else ''}"
            ),
            _table(claims),
        ),
        sections=(
            *(
                _section(
                    figure,
                    [one for one in claims if one.figure == figure.number],
                    Charts(paper, paper.base(figure.number, seeds[0], size), results, seeds),
                    f'yarn-plugin figures {name} --only "{figure.number}" --seeds {len(seeds)}'
                    f"{f' --size {size}' if len(paper.sizes) > 1 else ''}",
                )
                for figure in paper.figures
            ),
            *((Section("Not reproduced", told),) if told else ()),
        ),
    )


def _table(claims: Sequence[Claim]) -> Table:
    rows = [(*cells, Badge(verdict, TONES[verdict])) for *cells, verdict in map(row, claims)]
    return table_of(COLUMNS, rows, empty="No claims about these figures.")


def _section(figure: FigureSection, claims: Sequence[Claim], charts: Charts, command: str) -> Section:
    title = f"{figure.name}: {figure.title}"
    if figure.not_reproduced:
        return Section(title, (Text(f"Not reproduced: {figure.not_reproduced}.", "muted"),))
    return Section(
        title,
        (
            *((Text(f"Paper: {figure.says}."),) if figure.says else ()),
            *(block for chart in figure.charts for block in charts.blocks(chart)),
            *((_table(claims),) if claims else ()),
            Code(command),
        ),
    )
