SELECT 1 AS a, 'x;y', NULL, cast(1.50 AS DECIMAL(3,2)), array(1, null), map('k', 1.5), date'2020-01-02',
  timestamp'2020-01-02 03:04:05.678', named_struct('a', 1, 'b', 'q'), x'6162', true, 1.5D, 1e10, cast('nan' AS DOUBLE);
SELECT interval '1-2' year to month, interval '3 04:05:06.7' day to second, array(date'2020-01-02'), struct('a', null);
SELECT 'a\tb', 'line1\nline2', 'é', "double", r'raw\n';
SELECT array(x'6162', x'63'), map(1, array('a', 'b')), array(true), array(timestamp'2020-01-02 03:04:05');
