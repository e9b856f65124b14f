SELECT s.id, i.name, t.city, b.n FROM sales s LEFT JOIN items i ON s.item = i.item
LEFT JOIN stores t ON s.store = t.store
LEFT JOIN (SELECT item, count(*) AS n FROM sales WHERE day = 4 GROUP BY item) b ON s.item = b.item
WHERE s.id % 10 = 0 ORDER BY s.id;
