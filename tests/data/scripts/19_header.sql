-- options: --hiveconf hive.cli.print.header=true
SELECT s.id, i.name AS `the name`, t.city FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.id < 3 ORDER BY s.id;
SET x=1;
SELECT id FROM sales WHERE id < 0;
CREATE TEMPORARY VIEW v19 AS SELECT 1 AS a;
DROP VIEW v19;
