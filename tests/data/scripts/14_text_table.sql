CREATE TABLE s14 (item BIGINT, note STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE;
INSERT INTO s14 VALUES (1, 'one'), (2, 'two'), (3, NULL);
SELECT n.note, count(*) FROM s14 n JOIN sales s ON n.item = s.item JOIN stores t ON s.store = t.store GROUP BY n.note ORDER BY n.note;
DESCRIBE s14;
DROP TABLE s14;
