SELECT 'before';
source part_of_16.sql;
SELECT s.id, i.name, t.city FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.day = ${chosen_16} ORDER BY s.id LIMIT 3;
