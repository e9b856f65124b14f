"""`make demo`: a query that changes its plan when its share of the cluster changes, played on a real YARN cluster."""
