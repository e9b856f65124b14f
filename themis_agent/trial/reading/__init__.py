"""Reads the metric, steps and iteration times in the log of a training script, line by line. Pure.

    reader = LogReader("accuracy")
    for line in log: values = reader.read(line)

`numbers` knows how numbers are written, `metric` how names are, `pairs` turns JSON and tables into names with values,
`place` says where in its training a line is, and `numbering` what steps follow from that.
"""
