"""Files about cells: clusters of cells, and recorded cases that are replayed on them."""
