CREATE TABLE s13 (id BIGINT, name STRING, city STRING) USING parquet PARTITIONED BY (city);
SET spark.sql.sources.partitionOverwriteMode=dynamic;
INSERT OVERWRITE TABLE s13 PARTITION (city) SELECT s.id, i.name, t.city FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.day < 2;
INSERT OVERWRITE TABLE s13 PARTITION (city = 'Ulm') SELECT s.id, i.name FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.day = 4 AND t.city = 'Ulm';
SHOW PARTITIONS s13;
SELECT city, count(*), sum(id) FROM s13 GROUP BY city ORDER BY city;
ALTER TABLE s13 DROP PARTITION (city = 'Bern');
SHOW PARTITIONS s13;
DROP TABLE s13;
