-- options: --define source=sales --hivevar other=items
SELECT count(*), sum(a.qty) FROM ${source} a JOIN ${other} b ON a.item = b.item JOIN stores c ON a.store = c.store
WHERE b.category = 'even';
SET spark.sql.shuffle.partitions=3;
SET spark.sql.shuffle.partitions;
