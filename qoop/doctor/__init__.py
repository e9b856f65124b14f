"""What `qoop doctor` does: checks what queries need on this machine and in the cluster, and names remedies."""
