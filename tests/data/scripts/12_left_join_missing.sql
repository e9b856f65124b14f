SELECT i.name, a.n, t.city FROM items i LEFT JOIN (SELECT item, store, count(*) AS n FROM sales WHERE day = 0 GROUP BY item, store) a ON i.item = a.item
LEFT JOIN stores t ON a.store = t.store ORDER BY i.name, t.city;
