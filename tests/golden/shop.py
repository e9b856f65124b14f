"""A small shop in the manner of TPC-DS: tables to execute queries on, and the statistics that plans are made with."""

from qoop.estimate.statistics import ColumnStatistics, TableStatistics
from tests.duckdb_plans import Tables

MADE = (
    "CREATE TABLE sales AS SELECT (i * 9) % 40 AS sold_date, (i * 7) % 30 AS item, (i * 11) % 25 AS customer,"
    " i % 4 AS store, i AS ticket, i % 9 AS quantity, (i * 13 % 100)::decimal(7, 2) AS price FROM range(400) r(i)",
    "CREATE TABLE returns AS SELECT (i * 5) % 40 AS returned_date, (i * 9) % 30 AS item, (i * 33) % 25 AS customer,"
    " i * 3 AS ticket, i % 5 AS quantity FROM range(130) r(i)",
    "CREATE TABLE dates AS SELECT i AS day, DATE '2000-01-01' + i::integer AS date, 2000 + i // 20 AS year,"
    " i // 5 AS week FROM range(40) r(i)",
    "CREATE TABLE items AS SELECT i AS item, 'brand ' || i % 4 AS brand, 'class ' || i % 6 AS class,"
    " CASE WHEN i % 10 = 0 THEN NULL ELSE i % 5 END AS color FROM range(30) r(i)",
    "CREATE TABLE customers AS SELECT i AS customer, i % 7 AS address, 'c' || i AS name FROM range(25) r(i)",
    "CREATE TABLE addresses AS SELECT i AS address, 'city ' || i % 3 AS city FROM range(7) r(i)",
    "CREATE TABLE stores AS SELECT i AS store, 'city ' || i AS city, i % 2 AS manager FROM range(4) r(i)",
    "CREATE TABLE budget AS SELECT i % 4 AS store, i % 12 AS week, i AS amount FROM range(30) r(i)",
)

SIZES = {
    "sales": (2_880_000, {"sold_date": 1_823, "item": 18_000, "customer": 100_000, "store": 12, "ticket": 240_000}),
    "returns": (287_500, {"returned_date": 2_010, "item": 18_000, "customer": 99_000, "ticket": 167_000}),
    "dates": (73_049, {"day": 73_049, "date": 73_049, "year": 200, "week": 10_435}),
    "items": (18_000, {"item": 18_000, "brand": 950, "class": 100, "color": 92}),
    "customers": (100_000, {"customer": 100_000, "address": 48_000, "name": 100_000}),
    "addresses": (50_000, {"address": 50_000, "city": 700}),
    "stores": (12, {"store": 12, "city": 9, "manager": 10}),
    "budget": (600_000, {"store": 12, "week": 5_200, "amount": 90_000}),
}
"""Rows, and distinct values of columns: those of TPC-DS at scale 1, as far as there is something alike."""


class Shop(Tables):
    """The shop, with the statistics of a large one."""

    def __init__(self):
        super().__init__(*MADE)

    def statistics(self, table):
        rows, distinct = SIZES[table]
        columns = {name: ColumnStatistics(float(count)) for name, count in distinct.items()}
        return TableStatistics(float(rows), rows * 30.0, columns)
