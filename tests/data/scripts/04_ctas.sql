CREATE TABLE s04 USING orc AS SELECT t.city, i.name, sum(s.qty) AS n FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store GROUP BY t.city, i.name;
SELECT * FROM s04 ORDER BY city, name LIMIT 4;
CREATE TABLE s04b STORED AS PARQUET AS SELECT s.id, i.name, t.city FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.day = 1;
SELECT count(*), min(name) FROM s04b;
SHOW TABLES LIKE 's04*';
DROP TABLE s04; DROP TABLE s04b;
SHOW TABLES LIKE 's04*';
