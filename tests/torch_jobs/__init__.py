"""What the tests with torch run in several processes: `python -m tests.torch_jobs.NAME`."""
