"""The page: a single file without external references."""

from pathlib import Path

import pytest

from tests.html_checks import checked
from yarn_plugin.report import KeyFigure, KeyFigures, Page, Section, Table, Text, render, write
from yarn_plugin.report.page import ReportError
from yarn_plugin.report.table import Column


def page(sections: int = 3) -> Page:
    parts = tuple(Section(f"Part {number}", (Text("text"), Section("Sub", ()))) for number in range(sections))
    return Page("Title", "what it is about", parts, (KeyFigures((KeyFigure("Time", "3 s"),)),), made="by a test")


def test_a_page_is_self_contained() -> None:
    html = render(page())
    parsed = checked(html)
    assert html.startswith('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">')
    policy = parsed.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert str(policy[0]["content"]).startswith("default-src 'none';")
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_headings_go_down_by_one_and_the_contents_name_the_sections() -> None:
    parsed = checked(render(page()))
    ranks = [int(tag[1]) for tag, _ in parsed.elements if tag in ("h1", "h2", "h3", "h4")]
    assert ranks == [1, 2, 3, 2, 3, 2, 3]
    assert len(parsed.all("a")) == 3 + 1
    assert not checked(render(page(2))).all("nav")


def test_writing_is_atomic(tmp_path: Path) -> None:
    out = tmp_path / "below" / "page.html"
    write(page(), out)
    assert checked(out.read_text(encoding="utf-8")).text.startswith("Title")
    assert [file.name for file in out.parent.iterdir()] == ["page.html"]


def test_a_page_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"^report '.*page.html': .+$"):
        write(page(), tmp_path / "file" / "page.html")


def test_a_numeric_table_can_be_sorted() -> None:
    table = Table((Column("query"), Column("seconds", numeric=True, digits=1)), (("a", 12.345), ("b", None)))
    parsed = checked(render(Page("t", "s", (Section("x", (table,)),))))
    assert [cell.get("data-key") for cell in parsed.all("td")] == ["12.345", None]
    assert "12.3" in parsed.text
    assert len(parsed.all("button")) == 2
