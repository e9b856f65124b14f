"""Controllers for tests: an auction in rounds, a host of two auctions, and a table of 65,536 cells changed in place."""
