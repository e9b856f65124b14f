"""Aggregate functions of Spark, named by their classes, by what their result depends on. Others depend on order."""

EXACT = {
    "Count", "CountIf", "RegrCount", "Min", "Max", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg", "BitXorAgg",
    "BitmapAndAgg", "BitmapOrAgg", "BitmapConstructAgg", "HyperLogLogPlusPlus", "CountMinSketchAgg", "Percentile",
    "Median", "PercentileCont", "PercentileDisc",
}  # fmt: skip
"""Their result is the same to the last bit, whatever the order of rows."""

SUMS = {"Sum", "Average"}
"""Exact for exact numbers; sums of floating-point numbers depend on the order in their last digits."""

FLOATING = {
    "StddevPop", "StddevSamp", "VariancePop", "VarianceSamp", "Skewness", "Kurtosis", "Corr", "CovPopulation",
    "CovSample", "RegrAvgX", "RegrAvgY", "RegrSXX", "RegrSYY", "RegrSXY", "RegrSlope", "RegrIntercept", "RegrR2",
}  # fmt: skip
"""They add floating-point numbers whatever their arguments are."""

WITHOUT_ORDER = {*EXACT, *SUMS, *FLOATING}
"""Their result does not depend on the order of rows, apart from last digits."""
