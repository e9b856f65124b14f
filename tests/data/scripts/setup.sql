-- Tables that the scripts read.
CREATE TABLE sales USING parquet AS
SELECT id, id % 7 AS item, id % 3 AS store, CAST(id % 5 AS INT) AS day, CAST(id % 4 + 1 AS INT) AS qty,
  CAST(id * 1.25 AS DECIMAL(9,2)) AS price FROM range(60);
CREATE TABLE items USING parquet AS
SELECT id AS item, concat('item', id) AS name, if(id % 2 = 0, 'even', 'odd') AS category, array(id, id + 1) AS tags
FROM range(8);
CREATE TABLE stores USING parquet AS SELECT id AS store, element_at(array('Ulm', 'Bern', 'Graz'), CAST(id + 1 AS INT)) AS city FROM range(3);
