CREATE TABLE s05 (city STRING, n BIGINT) USING parquet;
WITH counted AS (SELECT t.city, count(*) AS n FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store GROUP BY t.city)
INSERT INTO s05 SELECT * FROM counted;
INSERT INTO s05 VALUES ('Oslo', 0);
SELECT * FROM s05 ORDER BY city;
WITH few AS (SELECT t.city, s.qty FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.day = 0)
INSERT OVERWRITE TABLE s05 SELECT city, sum(qty) FROM few GROUP BY city;
SELECT * FROM s05 ORDER BY city;
DROP TABLE s05;
