"""Parquet tables: their columns and statistics, read without Spark."""
