"""TPC-DS: data, queries, runs, comparison, reports."""
