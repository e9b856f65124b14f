CREATE TABLE s06a (id BIGINT, name STRING) USING parquet;
CREATE TABLE s06b (id BIGINT, qty INT) USING parquet;
FROM (SELECT s.id, s.qty, i.name, t.city FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store) x
INSERT INTO s06a SELECT id, name WHERE qty > 3
INSERT INTO s06b SELECT id, qty WHERE city = 'Ulm' AND qty <= 2;
SELECT count(*), max(id) FROM s06a;
SELECT count(*), max(id) FROM s06b;
FROM sales INSERT OVERWRITE TABLE s06a SELECT id, 'x' WHERE id < 3 INSERT OVERWRITE TABLE s06b SELECT id, qty WHERE id > 57;
SELECT * FROM s06a ORDER BY id;
SELECT * FROM s06b ORDER BY id;
DROP TABLE s06a;
DROP TABLE s06b;
