-- Sales by city; and by category.
SELECT t.city, i.category, sum(s.qty * s.price) AS total
FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store
GROUP BY t.city, i.category ORDER BY t.city, i.category;

/* The largest
   /* nested; */ sales. */
SELECT s.id, i.name, t.city, s.price FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store
WHERE s.day = 3 ORDER BY s.price DESC, s.id LIMIT 5;
