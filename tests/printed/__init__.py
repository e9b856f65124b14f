"""Everything that the product prints, for review in one file: `python -m tests.printed OUT`."""
