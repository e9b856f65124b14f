"""HiveD: virtual clusters as quotas of cells, served by buddy cell allocation.

H. Zhao et al., "HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees", OSDI '20; cited as HiveD with the
section.
"""
