"""Whether two analysed Spark plans are equivalent: a normal form without join order and places of filters."""
