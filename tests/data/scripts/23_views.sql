CREATE TEMPORARY VIEW v23 AS SELECT s.id, s.qty, i.category, t.city FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store;
SELECT v.city, i.name, count(*) FROM v23 v JOIN sales s ON v.id = s.id JOIN items i ON s.item = i.item WHERE v.category = 'odd'
GROUP BY v.city, i.name ORDER BY v.city, i.name;
DROP VIEW v23;
CREATE VIEW v23p AS SELECT item, count(*) AS n FROM sales GROUP BY item;
SELECT i.name, v.n, t.city FROM v23p v JOIN items i ON v.item = i.item JOIN stores t ON i.item = t.store ORDER BY i.name;
DROP VIEW v23p;
