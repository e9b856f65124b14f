SELECT * FROM (SELECT t.city, i.name, s.price, row_number() OVER (PARTITION BY t.city ORDER BY s.price DESC, s.id) AS place
FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store) r WHERE place <= 2 ORDER BY city, place;
SELECT city, category, count(*) FROM (SELECT t.city, i.category FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store) g GROUP BY city, category WITH ROLLUP ORDER BY city, category;
SELECT DISTINCT i.category FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE EXISTS (SELECT 1 FROM sales o WHERE o.item = s.item AND o.qty = 4) ORDER BY 1;
!echo done;
