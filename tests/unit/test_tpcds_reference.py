"""Answers of a reference engine are cached as files and reused only for the same engine, data and text."""

from datetime import date
from decimal import Decimal
from pathlib import Path

from tpcds.answers import Answer
from tpcds.reference import CachingEngine

ROWS = [
    (1, 1.1, Decimal("1.10"), date(1999, 12, 31), "é", None, True),
    (10**30, float("inf"), Decimal(5), None, "", 0, 0),
]


class Counting:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(self, sql: str) -> Answer:
        self.asked.append(sql)
        return Answer(("a", "a", "c", "d", "e", "f", "g"), ROWS, 0.25)


def test_an_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    engine = Counting()
    first = CachingEngine(engine, tmp_path / "kept", "v1").run("SELECT 1")
    again = CachingEngine(engine, tmp_path / "kept", "v1").run("SELECT 1")
    assert engine.asked == ["SELECT 1"]
    assert again == first
    assert [[type(cell) for cell in row] for row in again.rows] == [[type(cell) for cell in row] for row in ROWS]


def test_another_text_engine_or_data_set_is_asked_anew(tmp_path: Path) -> None:
    engine = Counting()
    for about, sql in (("v1", "SELECT 1"), ("v1", "SELECT 2"), ("v2", "SELECT 1")):
        CachingEngine(engine, tmp_path, about).run(sql)
    assert len(engine.asked) == 3


def test_a_broken_file_is_replaced(tmp_path: Path) -> None:
    engine = Counting()
    CachingEngine(engine, tmp_path, "v1").run("SELECT 1")
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:20])
    CachingEngine(engine, tmp_path, "v1").run("SELECT 1")
    assert len(engine.asked) == 2
    CachingEngine(engine, tmp_path, "v1").run("SELECT 1")
    assert len(engine.asked) == 2


def test_an_answer_is_computed_even_if_it_cannot_be_cached(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert CachingEngine(Counting(), tmp_path / "file" / "below", "v1").run("SELECT 1").rows == ROWS
